//! Code that runs below a known number of stack frames with frame pointers, so that call chains have a known length.

/// Most frames: 16 bytes each, far from the end of any stack.
const MAX_DEPTH: u32 = 1000;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" {
    fn truecount_lab_framed(
        depth: u64,
        inner: unsafe extern "C" fn(*mut core::ffi::c_void),
        argument: *mut core::ffi::c_void,
    );
}

/// Calls `inner` below `depth` further frames (at most 1000).
pub fn framed(depth: u32, inner: &mut dyn FnMut()) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        unsafe extern "C" fn call(argument: *mut core::ffi::c_void) {
            // SAFETY: `framed` passes a pointer to its own live reference, and this is its only use meanwhile.
            let inner = unsafe { &mut *argument.cast::<&mut dyn FnMut()>() };
            inner();
        }
        let mut inner = inner;
        // SAFETY: recurses `depth` times at 16 bytes a frame, then calls `call` with what it expects. A panic inside
        // ends the process at the `extern "C"` border instead of unwinding through the frames.
        unsafe {
            truecount_lab_framed(
                u64::from(depth.min(MAX_DEPTH)),
                call,
                (&raw mut inner).cast(),
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = (depth, MAX_DEPTH);
        inner();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_inner_code_runs_once_at_any_depth() {
        for depth in [0, 1, 16, u32::MAX] {
            let mut times = 0;
            super::framed(depth, &mut || times += 1);
            assert_eq!(times, 1);
        }
    }
}
