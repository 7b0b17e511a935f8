//! Saved states of preconditioned devices, in bounded memory.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flashlab_base::{Bytes, Seed};
use flashlab_sim::{FlashDevice, Profile};

use crate::SweepError;
use crate::precondition::{FilledState, precondition};

/// What decides about a state: the profile, the kind of state and the seed.
type Key = (String, FilledState, u64);

/// Saved states, shared by threads. The least recently used ones are dropped first.
#[derive(Debug)]
pub struct StateCache {
    most: Bytes,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<Key, Entry>,
    /// Counts uses.
    clock: u64,
    computed: u64,
}

#[derive(Debug)]
struct Entry {
    state: Arc<Mutex<Option<Arc<Vec<u8>>>>>,
    size: u64,
    used: u64,
}

impl StateCache {
    /// Enough for some dozens of states of the zoo at 1 GiB of capacity, and little beside what the devices themselves take.
    pub const USUAL: Bytes = Bytes::mib(256);

    /// A cache of at most this size. The most recent state is kept whatever its size is.
    pub fn new(most: Bytes) -> StateCache {
        StateCache { most, kept: Mutex::default() }
    }

    /// How many states were computed, and not found.
    pub fn computed(&self) -> u64 {
        self.lock().computed
    }

    /// The saved state, computed unless it is there. Who asks for a state that another thread computes waits for it.
    ///
    /// # Errors
    /// Those of [`precondition`]. An error is not kept.
    pub fn state(
        &self,
        profile: &Profile,
        state: FilledState,
        seed: Seed,
        interrupt: &AtomicBool,
    ) -> Result<Arc<Vec<u8>>, SweepError> {
        let key = (profile.to_toml(), state, seed.0);
        let place = {
            let mut kept = self.lock();
            kept.clock += 1;
            let used = kept.clock;
            let entry = kept.entries.entry(key.clone()).or_insert_with(|| Entry {
                state: Arc::default(),
                size: 0,
                used,
            });
            entry.used = used;
            Arc::clone(&entry.state)
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &*place {
            return Ok(Arc::clone(state));
        }
        let flashlab_sim::SimulatedDevice::Flash(mut device) = profile.device()? else {
            let (name, kind) = (&profile.name, profile.kind());
            return Err(SweepError::Input(format!("sim:{name} is a {kind}, which has no state")));
        };
        let filled = precondition(&mut device, profile, state, None, seed, interrupt)?;
        let bytes = Arc::new(device.save_described(Some(&filled.described)));
        *place = Some(Arc::clone(&bytes));
        drop(place);
        self.bound(&key, bytes.len() as u64);
        Ok(bytes)
    }

    /// Notes the size of a new state, and drops others until all fit.
    fn bound(&self, key: &Key, size: u64) {
        let mut kept = self.lock();
        kept.computed += 1;
        if let Some(entry) = kept.entries.get_mut(key) {
            entry.size = size;
        }
        loop {
            let sum: u64 = kept.entries.values().map(|entry| entry.size).sum();
            let others = kept.entries.iter().filter(|(other, entry)| *other != key && entry.size > 0);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone()) else {
                return;
            };
            if sum <= self.most.0 {
                return;
            }
            kept.entries.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The device in a saved state, at time zero.
pub(crate) fn restored(profile: &Profile, state: &[u8]) -> Result<FlashDevice, SweepError> {
    Ok(FlashDevice::restore(profile, state)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_computed_once_and_the_oldest_ones_are_dropped() {
        let profile = crate::profile_of("tlc-sata").unwrap().resized(Bytes::mib(64)).unwrap();
        let never = AtomicBool::new(false);
        let cache = StateCache::new(Bytes::gib(1));
        let get = |cache: &StateCache, seed| {
            cache.state(&profile, FilledState::Sequential, Seed(seed), &never).unwrap()
        };
        let first = get(&cache, 1);
        assert!(Arc::ptr_eq(&first, &get(&cache, 1)));
        get(&cache, 2);
        assert_eq!(cache.computed(), 2);
        let small = StateCache::new(Bytes(first.len() as u64 * 3 / 2));
        for seed in [1, 2, 1, 1] {
            get(&small, seed);
        }
        assert_eq!(small.computed(), 3);
        assert_eq!(*get(&small, 1), *first);
    }

    #[test]
    fn an_interrupted_state_is_not_kept() {
        let profile = crate::profile_of("tlc-sata").unwrap().resized(Bytes::mib(64)).unwrap();
        let cache = StateCache::new(Bytes::gib(1));
        let interrupted =
            cache.state(&profile, FilledState::Steady, Seed(1), &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(interrupted, SweepError::Interrupted { .. }), "{interrupted}");
        assert!(cache.state(&profile, FilledState::Sequential, Seed(1), &AtomicBool::new(false)).is_ok());
    }
}
