/// Things by a small number, which is used again after its owner is gone.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = Some(thing);
            return at;
        }
        self.slots.push(Some(thing));
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        if self.free.len() == self.slots.len() {
            *self = Self::default();
        }
        Some(thing)
    }

    pub(super) fn at(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)?.as_ref()
    }

    pub(super) fn at_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
