//! Tests with real sockets on loopback.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::*;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

struct Got {
    from: SocketAddr,
    to: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    payload: Vec<u8>,
}

async fn receive(socket: &UdpSocket, count: usize) -> Vec<Got> {
    let mut batch = RecvBatch::new(BATCH_SIZE);
    let mut got = Vec::new();
    while got.len() < count {
        batch.fill_from(socket).await.unwrap();
        got.extend(batch.datagrams().map(|datagram| Got {
            from: datagram.from,
            to: datagram.to,
            ecn: datagram.ecn,
            payload: datagram.payload.to_vec(),
        }));
    }
    got
}

/// Sends at once, even by a fresh socket.
fn put(socket: &UdpSocket, transmit: &Transmit<'_>) -> io::Result<usize> {
    socket.try_send(transmit)
}

fn transmit(destination: SocketAddr, contents: &[u8]) -> Transmit<'_> {
    Transmit { destination, ecn: None, contents, segment_size: None, src_ip: None }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await.unwrap() })
}

#[test]
fn segments_arrive_one_by_one_with_marks_and_addresses() {
    run(async {
        let (a, b) = (UdpSocket::bind(LOCAL).unwrap(), UdpSocket::bind(LOCAL).unwrap());
        let contents: Vec<u8> = (0..20 * 1200 + 7).map(|i| (i / 1200) as u8).collect();
        let to = b.local_addr().unwrap();
        for ecn in [Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ce), None] {
            let sent = Transmit { ecn, segment_size: Some(1200), ..transmit(to, &contents) };
            assert_eq!(put(&a, &sent).unwrap(), contents.len());
            let got = receive(&b, 21).await;
            let payloads: Vec<_> = got.iter().map(|got| &got.payload[..]).collect();
            assert_eq!(payloads, contents.chunks(1200).collect::<Vec<_>>());
            let from = a.local_addr().unwrap();
            assert!(got.iter().all(|got| got.ecn == ecn && got.from == from && got.to == Some(to.ip())));
        }
    });
}

#[test]
fn more_than_one_call_can_carry_is_sent_in_several() {
    run(async {
        let (a, b) = (UdpSocket::bind(LOCAL).unwrap(), UdpSocket::bind(LOCAL).unwrap());
        let contents: Vec<u8> = (0..200 * 1452).map(|i| (i / 1452) as u8).collect();
        let to = b.local_addr().unwrap();
        a.send(&Transmit { segment_size: Some(1452), ..transmit(to, &contents) }).await.unwrap();
        let got = receive(&b, 200).await;
        assert!(got.iter().zip(0u8..).all(|(got, i)| got.payload == [i; 1452]));
    });
}

#[test]
fn a_dual_stack_socket_speaks_both_and_shows_plain_addresses() {
    run(async {
        let dual = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
        let port = dual.local_addr().unwrap().port();
        let mut families = vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
        // A machine without IPv6 opens an IPv4 socket instead.
        families.extend(dual.local_addr().unwrap().is_ipv6().then_some(IpAddr::from(Ipv6Addr::LOCALHOST)));
        for ip in families {
            let plain = UdpSocket::bind((ip, 0).into()).unwrap();
            put(&plain, &transmit((ip, port).into(), b"there")).unwrap();
            let there = receive(&dual, 1).await.remove(0);
            assert_eq!((there.from, there.to), (plain.local_addr().unwrap(), Some(ip)));
            let back = Transmit {
                ecn: Some(EcnCodepoint::Ect1),
                segment_size: Some(2),
                src_ip: there.to,
                ..transmit(there.from, b"back")
            };
            assert_eq!(put(&dual, &back).unwrap(), 4);
            let got = receive(&plain, 2).await;
            assert!(got.iter().all(|got| got.from == (ip, port).into() && got.ecn == back.ecn));
            assert!(dual.max_gso_segments() > 1, "no fallback was needed");
        }
    });
}

#[test]
fn an_answer_leaves_from_the_address_that_was_asked() {
    run(async {
        let wild = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
        let asked = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), wild.local_addr().unwrap().port()));
        let asker = UdpSocket::bind(LOCAL).unwrap();
        put(&asker, &transmit(asked, b"?")).unwrap();
        let question = receive(&wild, 1).await.remove(0);
        assert_eq!(question.to, Some(asked.ip()));
        put(&wild, &Transmit { src_ip: question.to, ..transmit(question.from, b"!") }).unwrap();
        assert_eq!(receive(&asker, 1).await[0].from, asked);
    });
}

#[test]
fn a_closed_port_at_the_other_end_is_not_an_error() {
    run(async {
        let gone = std::net::UdpSocket::bind(LOCAL).unwrap().local_addr().unwrap();
        let connected = std::net::UdpSocket::bind(LOCAL).unwrap();
        connected.connect(gone).unwrap();
        let socket = UdpSocket::from_std(connected).unwrap();
        for _ in 0..5 {
            socket.send(&transmit(gone, b"anyone?")).await.unwrap();
            let error = RecvBatch::new(1).try_fill(&socket).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
    });
}

#[test]
fn an_oversized_datagram_is_refused_and_the_socket_lives() {
    run(async {
        let (a, b) = (UdpSocket::bind(LOCAL).unwrap(), UdpSocket::bind(LOCAL).unwrap());
        let to = b.local_addr().unwrap();
        let error = put(&a, &transmit(to, &[0; 65_530])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        put(&a, &transmit(to, b"fine")).unwrap();
        assert_eq!(receive(&b, 1).await[0].payload, b"fine");
    });
}

#[test]
fn an_empty_datagram_arrives() {
    run(async {
        let (a, b) = (UdpSocket::bind(LOCAL).unwrap(), UdpSocket::bind(LOCAL).unwrap());
        assert_eq!(put(&a, &transmit(b.local_addr().unwrap(), b"")).unwrap(), 0);
        assert_eq!(receive(&b, 1).await[0].payload, b"");
    });
}

#[test]
fn nothing_to_receive_is_would_block_and_then_a_wake() {
    run(async {
        let (a, b) = (UdpSocket::bind(LOCAL).unwrap(), UdpSocket::bind(LOCAL).unwrap());
        let mut batch = RecvBatch::new(1);
        assert_eq!(batch.try_fill(&b).unwrap_err().kind(), ErrorKind::WouldBlock);
        let to = b.local_addr().unwrap();
        let send = async {
            tokio::task::yield_now().await;
            put(&a, &transmit(to, b"late")).unwrap();
        };
        let fill = std::future::poll_fn(|cx| batch.poll_fill(cx, &b));
        assert_eq!(tokio::join!(fill, send).0.unwrap(), 1);
        assert_eq!(batch.datagrams().next().unwrap().payload, b"late");
    });
}

#[test]
fn a_bare_socket_does_the_same() {
    let options = SocketOptions::default();
    let (a, b) = (BareSocket::bind(LOCAL, &options).unwrap(), BareSocket::bind(LOCAL, &options).unwrap());
    let sent = Transmit { segment_size: Some(3), ..transmit(b.local_addr().unwrap(), b"onetwo") };
    assert_eq!(a.try_send(&sent).unwrap(), 6);
    let mut batch = RecvBatch::new(4);
    batch.try_fill_bare(&b).unwrap();
    let got: Vec<_> = batch.datagrams().map(|datagram| datagram.payload.to_vec()).collect();
    assert_eq!(got, [b"one", b"two"]);
}

#[test]
fn buffers_are_what_was_asked_or_what_the_system_allows() {
    run(async {
        let small =
            SocketOptions { recv_buffer: 64 << 10, send_buffer: 64 << 10, ..SocketOptions::default() };
        let socket = UdpSocket::bind_with(LOCAL, &small).unwrap();
        assert!(socket.recv_buffer().unwrap() >= 64 << 10 && socket.send_buffer().unwrap() >= 64 << 10);
        assert!(!socket.may_fragment());
    });
}

#[test]
#[cfg(target_os = "linux")]
fn where_the_kernel_cannot_segment_datagrams_go_one_by_one() {
    run(async {
        let plain = SocketOptions::default().open(LOCAL).unwrap();
        refuse_segmentation(&plain);
        let (a, b) = (UdpSocket::from_std(plain).unwrap(), UdpSocket::bind(LOCAL).unwrap());
        assert!(a.max_gso_segments() > 1);
        let sent = Transmit { segment_size: Some(4), ..transmit(b.local_addr().unwrap(), b"one two three") };
        assert_eq!(put(&a, &sent).unwrap(), 13);
        assert_eq!(a.max_gso_segments(), 1);
        let got: Vec<_> = receive(&b, 4).await.into_iter().map(|got| got.payload).collect();
        assert_eq!(got, [&b"one "[..], b"two ", b"thre", b"e"]);
    });
}

/// Disables checksums, because Linux does not segment datagrams without them.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no crate at hand sets SO_NO_CHECK")]
fn refuse_segmentation(socket: &std::net::UdpSocket) {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option's value is an int of the length given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            size,
        )
    };
    assert_eq!(result, 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn sockets_on_one_address_share_what_comes_there_and_keep_others_out() {
    for address in ["127.0.0.1:0", "[::]:0"] {
        let first = UdpSocket::bind(address.parse().unwrap()).unwrap();
        let to = first.local_addr().unwrap();
        let mut all = first.open_beside(1).unwrap();
        all.push(first);
        let target = SocketAddr::from(([127, 0, 0, 1], to.port()));
        let mut counts = [0; 2];
        for _ in 0..100 {
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.send_to(b"hello", target).unwrap();
            sender.send_to(b"again", target).unwrap();
        }
        for (socket, count) in all.iter().zip(&mut counts) {
            let mut pool = RecvPool::new(8);
            let waiting = Duration::from_millis(200);
            while tokio::time::timeout(waiting, pool.fill_from(socket)).await.is_ok() {
                pool.drain(|_| *count += 1);
            }
        }
        assert_eq!(counts[0] + counts[1], 200, "{address}: {counts:?}");
        assert!(counts.iter().all(|count| *count >= 40 && count % 2 == 0), "{address}: {counts:?}");
        let taken = UdpSocket::bind(to).map(|_| ()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "{address}: a second program is refused");
    }
}

/// The events that a descriptor is watched for (`EPOLLIN`, `EPOLLOUT`), as the kernel lists them.
#[cfg(target_os = "linux")]
fn watched_for(descriptor: i32) -> Vec<u32> {
    let files = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts: Vec<_> = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_it = words.filter(|words| words.first() == Some(&"tfd:") && words[1] == descriptor.to_string());
    of_it.map(|words| u32::from_str_radix(words[3], 16).unwrap()).collect()
}

/// The system says that there is room whenever a datagram has left, and would wake somebody for it.
#[cfg(target_os = "linux")]
#[test]
fn a_socket_is_watched_for_datagrams_alone() {
    run(async {
        let socket = UdpSocket::bind(LOCAL).unwrap();
        let events = watched_for(socket.descriptor());
        let (datagrams, room) = (libc::EPOLLIN as u32, libc::EPOLLOUT as u32);
        assert!(!events.is_empty());
        assert!(events.iter().all(|events| events & (datagrams | room) == datagrams), "{events:x?}");
    });
}

#[test]
fn several_senders_wait_for_room_at_once() {
    run(async {
        let socket = std::sync::Arc::new(UdpSocket::bind(LOCAL).unwrap());
        let waiting = |_| {
            tokio::spawn({
                let socket = std::sync::Arc::clone(&socket);
                async move { socket.writable().await }
            })
        };
        let all: Vec<_> = (0..3).map(waiting).collect();
        // One that gives up leaves its turn to the others.
        all[0].abort();
        for one in all.into_iter().skip(1) {
            one.await.unwrap().unwrap();
        }
    });
}
