//! How one event is reported both ways.

/// Reports one event: to `tracing`, if the feature is on and somebody listens, and to the recording, if there is one.
///
/// The fields before the semicolon are numbers, switches and our own words. Those behind it are displayed. A field is
/// evaluated only for whoever takes the event.
macro_rules! report {
    (
        $observer:expr, $now:expr, $level:ident, $target:literal, $message:literal, $record:literal
        $(, $key:ident = $value:expr)* $(; $($text:ident = $shown:expr),+)?
    ) => {{
        #[cfg(feature = "tracing")]
        tracing::$level!(
            target: $target, parent: &$observer.span,
            $($key = $value,)* $($($text = %$shown,)+)? $message
        );
        if let Some(qlog) = &mut $observer.qlog {
            qlog.record($now, $record, |fields| {
                $(fields.put(stringify!($key), $value);)*
                $($(fields.show(stringify!($text), &$shown);)+)?
            });
        }
    }};
}

/// Emits an event of `tracing` only, because the recording has it in another form.
macro_rules! told {
    ($observer:expr, $level:ident, $target:literal, $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: $target, parent: &$observer.span, $($rest)*);
    };
}

pub(super) use {report, told};
