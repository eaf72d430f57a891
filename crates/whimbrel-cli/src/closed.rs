//! Describes for people why a mocket is closed. The library's own descriptions are made for programs.

use std::error::Error;

use whimbrel::{
    CloseReason, Closed, ConnectError, Reason, SendError, StreamIoError, StreamOpenError, StreamRecvError,
    SuspendError,
};
use whimbrel_proto::Cause;
use whimbrel_service::DialError;

/// Describes the reason in one sentence, without a full stop.
pub(crate) fn why(reason: &CloseReason) -> String {
    match reason {
        CloseReason::Peer(said) => format!("the peer closed{}", words(said)),
        CloseReason::Aborted(Cause::Application, said) => format!("the peer closed{}", words(said)),
        CloseReason::Aborted(Cause::Shutdown, said) => format!("the peer shut down{}", words(said)),
        CloseReason::Aborted(Cause::Refused, said) => {
            format!("the peer does not allow this key, or no longer does{}", words(said))
        }
        CloseReason::Aborted(cause, said) => format!("the peer gave up, cause {cause:?}{}", words(said)),
        other => other.to_string(),
    }
}

/// Formats as `: TEXT (code N)`.
fn words(said: &Reason) -> String {
    let text = if said.text.is_empty() { String::new() } else { format!(": {}", said.text) };
    if said.code == 0 { text } else { format!("{text} (code {})", said.code) }
}

/// Formats an error as `{:#}` does, but describes a closed mocket in this module's words.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut parts = Vec::new();
    for link in error.chain() {
        if let Some(reason) = reason_of(link) {
            parts.push(why(reason));
            break;
        }
        parts.push(link.to_string());
    }
    // An error that repeats its source's text is shown once.
    parts.dedup();
    parts.join(": ")
}

fn reason_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CloseReason> {
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        return error.get_ref().and_then(|inner| reason_of(inner));
    }
    None.or_else(|| error.downcast_ref::<CloseReason>())
        .or_else(|| error.downcast_ref::<Closed>().map(|Closed(reason)| reason))
        .or_else(|| match error.downcast_ref()? {
            SendError::Closed(reason) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            StreamIoError::Closed(reason) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            StreamOpenError::Closed(reason) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            StreamRecvError::Closed(reason) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            SuspendError::Closed(reason) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            ConnectError::Closed(reason) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            DialError::Connect(ConnectError::Closed(reason)) => Some(reason),
            _ => None,
        })
        .or_else(|| match error.downcast_ref()? {
            whimbrel::ResumeError::Closed(reason) => Some(reason),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn aborted(code: u64, text: &str) -> CloseReason {
        CloseReason::Aborted(Cause::Application, Reason::new(code, text))
    }

    #[test]
    fn a_person_reads_who_closed_and_why_wherever_it_was_noticed() {
        for (code, text, wanted) in [
            (3, "busy", "the peer closed: busy (code 3)"),
            (0, "bye", "the peer closed: bye"),
            (7, "", "the peer closed (code 7)"),
        ] {
            let reason = || aborted(code, text);
            let io = || std::io::Error::from(StreamIoError::Closed(reason()));
            let errors: [anyhow::Error; 8] = [
                reason().into(),
                Closed(reason()).into(),
                SendError::Closed(reason()).into(),
                io().into(),
                StreamOpenError::Closed(reason()).into(),
                ConnectError::Closed(reason()).into(),
                DialError::Connect(reason().into()).into(),
                SuspendError::Closed(reason()).into(),
            ];
            for error in errors {
                assert_eq!(sentence(&error), wanted, "{error:?}");
            }
            let around = Err::<(), _>(io()).context("in the middle").unwrap_err();
            assert_eq!(sentence(&around), format!("in the middle: {wanted}"));
        }
        let other = anyhow::anyhow!("inner").context("outer");
        assert_eq!(sentence(&other), "outer: inner");
    }

    #[test]
    fn causes_are_told_in_words_and_text_is_escaped() {
        let refused = CloseReason::Aborted(Cause::Refused, Reason::default());
        assert_eq!(why(&refused), "the peer does not allow this key, or no longer does");
        assert_eq!(why(&aborted(1, "\x1b[2J")), r"the peer closed: \u{1b}[2J (code 1)");
    }
}
