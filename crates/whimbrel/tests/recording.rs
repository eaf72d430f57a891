//! Connections are recorded in files, which an independent implementation of qlog reads, and emit `tracing` events.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::time::SystemTime;

use qlog::events::EventData;
use qlog::events::quic::QuicFrame;
use qlog::reader::{Event, QlogSeqReader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{BindError, Config, Endpoint, new_identity};

/// Exchanges messages and a stream in both directions, then closes gracefully.
async fn talk(near: Config, far: Config) -> u64 {
    let server = Endpoint::bind(far.identity(new_identity()).listen(Some(Default::default())), "127.0.0.1:0")
        .await
        .unwrap();
    let client = Endpoint::bind(near, "127.0.0.1:0").await.unwrap();
    let near = client
        .connect(format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap()))
        .await
        .unwrap();
    let far = server.accept().await.unwrap();
    for _ in 0..20 {
        near.send(vec![0; 50_000]).await.unwrap();
        far.recv().await.unwrap();
        far.send("yes").await.unwrap();
        near.recv().await.unwrap();
    }
    let mut stream = near.open_stream().await.unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    far.accept_stream().await.unwrap().read_to_end(&mut Vec::new()).await.unwrap();
    let packets = near.stats().connection.total.sent_packets;
    near.close(0, "done").await;
    far.closed().await;
    packets
}

fn since_1970_ms() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() * 1e3
}

fn read(path: &Path) -> (QlogSeqReader, BTreeMap<String, u64>, u64) {
    let file = BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = QlogSeqReader::new(Box::new(file)).unwrap();
    let (mut counts, mut acked, mut last) = (BTreeMap::<String, u64>::new(), 0, 0.0);
    for event in reader.by_ref() {
        let (time, name) = match event {
            Event::Qlog(event) => {
                match &event.data {
                    EventData::PacketReceived(packet) => {
                        let frames = packet.frames.as_ref().unwrap();
                        acked += frames.iter().filter(|frame| matches!(frame, QuicFrame::Ack { .. })).count()
                            as u64;
                    }
                    EventData::MetricsUpdated(metrics) => assert!(metrics.congestion_window.unwrap() > 0),
                    _ => {}
                }
                let name = format!("{:?}", event.data);
                (event.time, name.split(['(', ' ']).next().unwrap().to_owned())
            }
            Event::Json(event) => {
                assert!(event.name.starts_with("whimbrel:"), "not a record of qlog's: {event:?}");
                (event.time, event.name)
            }
        };
        assert!(time >= last, "{name} at {time} comes after {last}");
        last = time;
        *counts.entry(name).or_default() += 1;
    }
    (reader, counts, acked)
}

#[tokio::test]
async fn a_recording_is_read_by_an_implementation_of_qlog() {
    let folder = std::env::temp_dir().join(format!("whimbrel-qlog-{}", std::process::id()));
    let config = || Config::default().qlog_dir(Some(folder.clone()));
    let before = since_1970_ms();
    let packets = talk(config(), config()).await;
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "one for each end: {files:?}");
    for file in files {
        let (reader, counts, acked) = read(&file);
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let records = std::fs::read_to_string(&file).unwrap().lines().count() as u64;
        assert_eq!(counts.values().sum::<u64>() + 1, records, "each record was read: {counts:?}");
        let count = |name: &str| counts.get(name).copied().unwrap_or_default();
        assert_eq!((count("ConnectionStarted"), count("ConnectionClosed")), (1, 1), "{counts:?}");
        assert!(
            count("MetricsUpdated") > 0 && count("CongestionStateUpdated") > 0 && acked > 0,
            "{counts:?}"
        );
        assert!(count("whimbrel:handshake_updated") > 0 && count("whimbrel:path_updated") > 0, "{counts:?}");
        assert!(count("PacketSent") > 10 && count("PacketReceived") > 10, "{counts:?}");
        let began = reader.qlog.trace.common_fields.as_ref().unwrap().reference_time.unwrap();
        assert!(
            (before - 1.0..since_1970_ms()).contains(&began),
            "{began} is not the wall-clock time of its beginning"
        );
        let side = format!("{:?}", reader.qlog.trace.vantage_point.ty).to_lowercase();
        assert!(name.contains(&side), "{name} says it is the {side}'s");
        if side == "client" {
            // The packets of the handshake itself are not sealed and not recorded.
            assert!(count("PacketSent") + 10 > packets, "{} of {packets} packets", count("PacketSent"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                std::fs::metadata(&file).unwrap().permissions().mode() & 0o077,
                0,
                "others may not read it"
            );
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_at_once() {
    let config = Config::default().qlog_dir(Some("/dev/null/recordings".into()));
    let error = Endpoint::bind(config, "127.0.0.1:0").await.unwrap_err();
    assert!(matches!(error, BindError::QlogDir { .. }) && error.to_string().contains("WHIMBREL_QLOG_DIR"));
}
