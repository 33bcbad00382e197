//! Workers that polluting statements are left while a class misses its target: the actuator before worker threads.

use super::promise::Promise;
use super::{Action, Actuator, ClassId, Observation, Targets, action, bit, bits, lower};

/// Share of an island's workers that polluting statements keep at the first step; at the second they keep one worker.
const FIRST_STEP: u32 = 4;

/// What polluting statements are held at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Workers of each island.
    pub workers: u32,
    /// The classes for whose targets, a bit each.
    pub causes: u64,
    /// The classes whose windows were counted anew since, a bit each.
    pub counted: u64,
}

impl Targets {
    /// Leaves polluting statements fewer workers, if that may help the class. Whether it was done: worker threads are cut
    /// otherwise, and have all their windows to show that it helps.
    pub(super) fn hold_polluters(
        &mut self,
        id: ClassId,
        promise: &mut Promise,
        observation: &Observation,
        actions: &mut Vec<Action>,
    ) -> bool {
        let now = self.held.map_or(observation.polluting_workers, |held| held.workers);
        let now = now.min(observation.polluting_workers);
        let causes = self.held.map_or(0, |held| held.causes) | bit(id);
        let workers = match self.held {
            None => (now / FIRST_STEP).max(1),
            Some(_) => 1,
        };
        let is_of_lower = |of: ClassId| lower(&self.snapshot, id).any(|class| class.id == of);
        let mut polluting = observation.classes.iter().filter(|of| of.is_polluting).peekable();
        let is_there = polluting.peek().is_some();
        if now <= 1 || !is_there || !polluting.all(|of| is_of_lower(of.class)) {
            // Once: a class that nothing helps is to be told so.
            if let Some(held) = &mut self.held
                && held.causes & bit(id) & !held.counted != 0
            {
                held.counted |= bit(id);
                promise.count_anew();
            }
            return false;
        }
        let counted = self.held.map_or(0, |held| held.counted);
        self.held = Some(Held { workers, causes, counted });
        let reason = promise.reason(&self.snapshot.class(id).name);
        actions.push(action(id, Actuator::Polluters(Some(workers)), id, &reason));
        true
    }

    /// Gives polluting statements a worker of each island back, all if the class runs nothing, once no worker threads are
    /// capped for the class any more.
    pub(super) fn let_polluters(
        &mut self,
        id: ClassId,
        is_idle: bool,
        observation: &Observation,
        actions: &mut Vec<Action>,
    ) {
        let Some(held) = self.held.filter(|held| held.causes & bit(id) != 0) else { return };
        let has_room = |other| self.promises.get(&other).is_none_or(Promise::has_room);
        if self.has_caps_for(id) || !bits(held.causes & !bit(id)).all(has_room) {
            return;
        }
        let workers = held.workers + 1;
        let is_free = is_idle || workers >= observation.polluting_workers;
        self.held = (!is_free).then_some(Held { workers, ..held });
        let now = self.held.map(|held| held.workers);
        actions.push(action(id, Actuator::Polluters(now), id, "there is room below the target"));
    }

    /// Polluting statements are no longer held for a class.
    pub(super) fn free_polluters(&mut self, id: ClassId, reason: &str, actions: &mut Vec<Action>) {
        let Some(held) = self.held.filter(|held| held.causes & bit(id) != 0) else { return };
        let causes = held.causes & !bit(id);
        let counted = held.counted & !bit(id);
        self.held = (causes != 0).then_some(Held { causes, counted, ..held });
        if causes == 0 {
            actions.push(action(id, Actuator::Polluters(None), id, reason));
        }
    }

    /// Workers of each island that polluting statements are held at for a class.
    pub(super) fn polluters_held_for(&self, id: ClassId) -> Option<u32> {
        self.held.filter(|held| held.causes & bit(id) != 0).map(|held| held.workers)
    }

    fn has_caps_for(&self, id: ClassId) -> bool {
        self.caps.values().any(|cap| cap.causes & bit(id) != 0)
    }
}
