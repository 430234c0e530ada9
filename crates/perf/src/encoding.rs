//! From an encoding (the result of resolving a name) to the kernel's attributes: the only place where one becomes the
//! other.

use truecount_events::Encoding;

use crate::attr::EventAttr;

/// The attributes that an encoding asks for; formats, inheritance and sampling are the caller's.
///
/// ```
/// use truecount_events::{Machine, resolve};
/// use truecount_perf::EventAttr;
/// let resolved = resolve("branches:u", &Machine::unknown()).unwrap();
/// let attr = EventAttr::from(resolved.events().next().unwrap().encoding().unwrap());
/// assert!(attr.get_exclude_kernel() && !attr.get_exclude_user());
/// ```
impl From<&Encoding> for EventAttr {
    fn from(encoding: &Encoding) -> Self {
        Self::new(encoding.type_, encoding.config)
            .config1(encoding.config1)
            .config2(encoding.config2)
            .config3(encoding.config3)
            .exclude_user(encoding.exclude_user)
            .exclude_kernel(encoding.exclude_kernel)
            .exclude_hv(encoding.exclude_hv)
            .exclude_host(encoding.exclude_host)
            .exclude_guest(encoding.exclude_guest)
            .exclude_idle(encoding.exclude_idle)
            .precise_ip(encoding.precise_ip)
            .pinned(encoding.pinned)
            .exclusive(encoding.exclusive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field of an encoding that the kernel has a bit for arrives there.
    #[test]
    fn no_field_is_dropped() {
        let none = EventAttr::from(&Encoding::default());
        let base = Encoding::default;
        let all = [
            Encoding { type_: 4, ..base() },
            Encoding {
                config: 1,
                ..base()
            },
            Encoding {
                config1: 1,
                ..base()
            },
            Encoding {
                config2: 1,
                ..base()
            },
            Encoding {
                config3: 1,
                ..base()
            },
            Encoding {
                exclude_user: true,
                ..base()
            },
            Encoding {
                exclude_kernel: true,
                ..base()
            },
            Encoding {
                exclude_hv: true,
                ..base()
            },
            Encoding {
                exclude_host: true,
                ..base()
            },
            Encoding {
                exclude_guest: true,
                ..base()
            },
            Encoding {
                exclude_idle: true,
                ..base()
            },
            Encoding {
                precise_ip: 2,
                ..base()
            },
            Encoding {
                pinned: true,
                ..base()
            },
            Encoding {
                exclusive: true,
                ..base()
            },
        ];
        for encoding in all {
            assert_ne!(EventAttr::from(&encoding), none, "{encoding:?}");
        }
    }
}
