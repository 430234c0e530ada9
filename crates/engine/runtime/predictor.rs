//! What predicts a thread's branches (`xlate::predictor`).

use crate::layout::{Context, option};
use crate::slots;
use crate::xlate::predictor::{IS_WRONG, NEXT, PREDICTOR, Predictor};

/// Whether translated code predicts.
pub fn on() -> bool {
    slots::header().options & option::PREDICTED != 0
}

fn of(context: &mut Context) -> Option<&mut Predictor> {
    // SAFETY: the thread's own, in its region; it is in the runtime.
    on().then(|| unsafe { &mut *((context.this + PREDICTOR) as *mut Predictor) })
}

/// A thread's context.
pub fn prepare(context: &mut Context) {
    if let Some(predictor) = of(context) {
        (predictor.next, predictor.wrong) = (NEXT, IS_WRONG);
    }
}

/// The conditional branch at this address, which was the last one, was not executed; whether it was predicted wrongly.
pub fn take_back(context: &mut Context, pc: u64) -> bool {
    of(context).is_some_and(|predictor| predictor.state.take_back(pc))
}

/// The same of an indirect one.
pub fn take_target_back(context: &mut Context, pc: u64) -> bool {
    of(context).is_some_and(|predictor| predictor.state.take_target_back(pc))
}

/// What the thread does from here on is of no use to anybody, or of use again: then it goes on as it was.
pub fn idle(context: &mut Context, idle: bool) {
    let was = context.noted.idle != 0;
    if let Some(predictor) = of(context).filter(|_| was != idle) {
        match idle {
            true => predictor.kept = predictor.state,
            false => predictor.state = predictor.kept,
        }
    }
}
