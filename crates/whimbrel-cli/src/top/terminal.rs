//! The terminal while `whimbrel top` has it.

use std::io;
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::backend::Backend as _;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use super::model::{View, Wish};

/// How long a thread that reads keys may go on after nobody wants them.
const LOOK: Duration = Duration::from_millis(100);

/// The terminal, on a screen of its own. Dropping it gives the former screen back, and so does a panic.
pub(super) struct Screen(pub(super) DefaultTerminal);

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }

    /// Has all of it drawn the next time. `Terminal::clear` would ask the terminal where its cursor is, and wait for the answer.
    pub(super) fn draw_anew(&mut self) -> io::Result<()> {
        self.0.backend_mut().clear()?;
        // What was drawn last is compared with, and is empty now.
        self.0.swap_buffers();
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// A person's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Quit,
    Wish(Wish),
    /// The terminal has another size now.
    Resized,
    /// Others have written on the screen, so all of it has to be drawn.
    Redraw,
}

/// Returns what a person does, from now on.
pub(super) fn deeds() -> mpsc::Receiver<Did> {
    let (send, deeds) = mpsc::channel(16);
    // Reading a terminal blocks.
    thread::spawn(move || {
        while !send.is_closed() {
            match event::poll(LOOK) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(_) => return,
            }
            let Ok(event) = event::read() else { return };
            if let Some(did) = deed(&event)
                && send.blocking_send(did).is_err()
            {
                return;
            }
        }
    });
    deeds
}

fn deed(event: &Event) -> Option<Did> {
    match event {
        Event::Resize(..) => Some(Did::Resized),
        Event::Key(key) if key.kind != KeyEventKind::Release => key_deed(*key),
        _ => None,
    }
}

fn key_deed(key: KeyEvent) -> Option<Did> {
    let wish = match key.code {
        // In this mode of the terminal, Ctrl-C is a key.
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => return Some(Did::Quit),
        KeyCode::Char('l') if key.modifiers.contains(KeyModifiers::CONTROL) => return Some(Did::Redraw),
        KeyCode::Char('q') | KeyCode::Esc => return Some(Did::Quit),
        KeyCode::Char(digit @ '1'..='5') => Wish::View(View::ALL[digit as usize - '1' as usize]),
        KeyCode::Tab => Wish::NextView,
        KeyCode::Char('s') => Wish::Sort,
        KeyCode::Char('r') => Wish::Reverse,
        KeyCode::Up | KeyCode::Char('k') => Wish::Scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => Wish::Scroll(1),
        KeyCode::PageUp => Wish::Scroll(-20),
        KeyCode::PageDown | KeyCode::Char(' ') => Wish::Scroll(20),
        KeyCode::Home => Wish::Begin,
        _ => return None,
    };
    Some(Did::Wish(wish))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meanings() {
        let press = |code, modifiers| deed(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Did::Quit));
        assert_eq!(press(KeyCode::Char('c'), none), None);
        assert_eq!(press(KeyCode::Char('q'), none), Some(Did::Quit));
        assert_eq!(press(KeyCode::Char('3'), none), Some(Did::Wish(Wish::View(View::Subscribers))));
        assert_eq!(press(KeyCode::Char('5'), none), Some(Did::Wish(Wish::View(View::Brokers))));
        assert_eq!(press(KeyCode::Char('6'), none), None);
        assert_eq!(deed(&Event::Resize(80, 24)), Some(Did::Resized));
    }
}
