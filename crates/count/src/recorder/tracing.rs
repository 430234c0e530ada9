//! A layer for `tracing`: spans become regions, events become instants. Facts: the `Layer` trait of
//! `tracing-subscriber` 0.3.
//!
//! A span that is entered several times (a future that is polled) is a region for each time.

use super::{Label, Recorder, Region};
use std::cell::RefCell;
use std::fmt::Write as _;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

thread_local! {
    /// The regions of the spans that this thread is in; each layer's own, by its recorder.
    static ENTERED: RefCell<Vec<(u64, Id, Region)>> = const { RefCell::new(Vec::new()) };
}

/// Records the spans and events of a program that uses `tracing`.
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("truecount-layer-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// use tracing_subscriber::layer::SubscriberExt;
/// let recorder = truecount::Recorder::new(directory.join("traced"))?;
/// let subscriber = tracing_subscriber::registry().with(recorder.layer());
/// // tracing::subscriber::set_global_default(subscriber)?;
/// # drop(subscriber);
/// recorder.finish()?;
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RegionLayer {
    recorder: Recorder,
}

/// What a span is recorded as.
struct SpanLabel(Label);

impl Recorder {
    /// A layer that records every span into this recorder, with its fields as arguments.
    #[must_use]
    pub fn layer(&self) -> RegionLayer {
        RegionLayer {
            recorder: self.clone(),
        }
    }
}

#[derive(Default)]
struct Fields {
    message: Option<String>,
    rest: Vec<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut text = String::new();
        // Formatting into a string fails only where a Debug implementation does; then what there is counts.
        if field.name() == "message" {
            let _ = write!(text, "{value:?}");
            self.message = Some(text);
        } else {
            let _ = write!(text, "{}={value:?}", field.name());
            self.rest.push(text);
        }
    }
}

impl RegionLayer {
    fn text(&self, name: &str, fields: &Fields) -> Label {
        let arguments: Vec<&str> = fields
            .message
            .iter()
            .chain(&fields.rest)
            .map(String::as_str)
            .collect();
        if arguments.is_empty() {
            return self.recorder.label(name);
        }
        Label(self.recorder.output().event_text(name, &arguments))
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for RegionLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let label = self.text(attributes.metadata().name(), &fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(SpanLabel(label));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        // Fields that come later join the name from the next time the span is entered.
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = context.span(id) {
            let label = self.text(span.name(), &fields);
            span.extensions_mut().replace(SpanLabel(label));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let label = match &fields.message {
            Some(message) => {
                let arguments: Vec<&str> = fields.rest.iter().map(String::as_str).collect();
                Label(self.recorder.output().event_text(message, &arguments))
            }
            None => self.text(event.metadata().name(), &fields),
        };
        self.recorder.instant(label);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(label) = span.extensions().get::<SpanLabel>().map(|label| label.0) else {
            return;
        };
        let region = self.recorder.region(label);
        let number = self.recorder.shared.number;
        // While thread-locals are being destroyed the region ends at once.
        let _ = ENTERED.try_with(|entered| {
            if let Ok(mut entered) = entered.try_borrow_mut() {
                entered.push((number, id.clone(), region));
            }
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let number = self.recorder.shared.number;
        let ended = ENTERED.try_with(|entered| {
            let mut entered = entered.try_borrow_mut().ok()?;
            let place = entered
                .iter()
                .rposition(|(n, entered, _)| *n == number && entered == id)?;
            Some(entered.remove(place))
        });
        // Dropped outside the borrow.
        drop(ended);
    }
}
