//! The CPUs that a thread may run on (`sched_setaffinity(2)`).

use std::io;

/// The CPUs that the calling thread may run on.
#[derive(Clone, Copy)]
pub struct Affinity(libc::cpu_set_t);

impl std::fmt::Debug for Affinity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.cpus()).finish()
    }
}

impl Affinity {
    /// As it is now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn now() -> io::Result<Self> {
        // SAFETY: an array of integers, for which zeros are valid.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the set is live and its size is given.
        if unsafe { libc::sched_getaffinity(0, size, &raw mut set) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(set))
    }

    /// The CPUs in it.
    pub fn cpus(&self) -> impl Iterator<Item = usize> + '_ {
        // SAFETY: CPU_ISSET checks its index against the set's size.
        (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) })
    }

    /// One CPU only.
    #[must_use]
    pub fn only(cpu: usize) -> Self {
        // SAFETY: an array of integers, for which zeros are valid.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        if cpu < 1024 {
            // SAFETY: inside the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        Self(set)
    }

    /// All of these but one CPU; all where nothing would be left.
    #[must_use]
    pub fn without(&self, cpu: usize) -> Self {
        let mut other = *self;
        if cpu < 1024 {
            // SAFETY: inside the set.
            unsafe { libc::CPU_CLR(cpu, &mut other.0) };
        }
        if other.cpus().next().is_some() {
            other
        } else {
            *self
        }
    }

    /// Moves the calling thread.
    ///
    /// # Errors
    /// The kernel's: none of these CPUs may be used.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the set is live and its size is given.
        if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) }
            != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// The CPUs that truecount may use.
pub fn allowed_cpus() -> Vec<usize> {
    Affinity::now().map_or_else(|_| Vec::new(), |set| set.cpus().collect())
}
