//! A congestion controller with its window and rate cached. They are updated when the controller changes, not for each
//! packet.

use crate::Time;
use crate::congestion::Controller;

#[derive(Debug)]
pub(super) struct Steered {
    controller: Box<dyn Controller>,
    window: u64,
    pacing_rate: u64,
}

impl Steered {
    pub(super) fn new(controller: Box<dyn Controller>) -> Self {
        let (window, pacing_rate) = (controller.window(), controller.pacing_rate());
        Self { controller, window, pacing_rate }
    }

    pub(super) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// Returns how many bytes may be in flight.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Returns the pacing rate, bytes per second.
    #[inline]
    pub(super) fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// Tells the controller that a packet is sent, which by itself changes neither window nor rate.
    pub(super) fn on_sent(&mut self, now: Time, size: u64, in_flight_before: u64) {
        self.controller.on_sent(now, size, in_flight_before);
        debug_assert_eq!(
            (self.controller.window(), self.controller.pacing_rate()),
            (self.window, self.pacing_rate)
        );
    }

    /// Applies a change to the controller and updates the window and rate.
    pub(super) fn change(&mut self, happen: impl FnOnce(&mut dyn Controller)) {
        happen(&mut *self.controller);
        self.window = self.controller.window();
        self.pacing_rate = self.controller.pacing_rate();
    }
}
