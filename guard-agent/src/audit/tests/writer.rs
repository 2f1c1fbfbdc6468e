//! The writer thread: many senders, one chain.

use std::time::{Duration, Instant};

use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn spawn(dir: &Path, options: Options) -> AuditHandle {
    AuditHandle::spawn(Trail::open(dir, options).unwrap()).unwrap()
}

#[test]
fn four_tasks_append_ten_thousand_records() {
    let place = place();
    let options = Options {
        max_segment_bytes: 1 << 20,
        ..Options::default()
    };
    let (tasks, each) = (4, 2500);
    let started = Instant::now();
    runtime().block_on(async {
        let handle = spawn(&place.dir, options);
        let work: Vec<_> = (0..tasks)
            .map(|task| {
                let handle = handle.clone();
                tokio::spawn(async move {
                    let mut last = 0;
                    for number in 0..each {
                        let durability = if number % 500 == 0 {
                            Durability::Sync
                        } else {
                            Durability::Soon
                        };
                        let body = allow(task * each + number);
                        let seq = handle.append(body, Origin::Warden, durability).await.unwrap();
                        assert!(seq > last, "a task's records keep their order");
                        last = seq;
                    }
                })
            })
            .collect();
        for task in work {
            task.await.unwrap();
        }
        handle.close().await.unwrap();
    });
    let took = started.elapsed();
    println!(
        "10000 records by 4 tasks: {took:?}, {:.0} records/s",
        10_000.0 / took.as_secs_f64()
    );
    let report = good(&place.dir);
    let mut pids = Vec::new();
    for record in records(&place.dir) {
        if let Body::Kernel(kernel) = record.body {
            pids.push(kernel.pid);
        }
    }
    pids.sort_unstable();
    assert_eq!(pids, (0..tasks * each).collect::<Vec<_>>());
    assert_eq!(report.unsigned, 0);
}

#[test]
fn soon_is_within_a_tenth_of_a_second_and_idle_chains_get_signed() {
    let place = place();
    runtime().block_on(async {
        let handle = spawn(&place.dir, Options::default());
        handle
            .append(allow(1), Origin::Warden, Durability::Soon)
            .await
            .unwrap();
        assert_eq!(handle.head().await.unwrap().unwrap().0, 1);
        let started = Instant::now();
        while handle.head().await.unwrap().unwrap().0 < 2 {
            assert!(started.elapsed() < Duration::from_secs(20), "no checkpoint came");
            // Longer than the writer's idle time: asking would keep it awake.
            tokio::time::sleep(Duration::from_millis(2500)).await;
        }
        assert_eq!(good(&place.dir).unsigned, 0);
        drop(handle);
    });
}

#[test]
fn the_end_of_the_last_handle_closes_the_chain() {
    let place = place();
    let handle = spawn(&place.dir, Options::default());
    let other = handle.clone();
    drop(handle);
    other
        .append_blocking(allow(1), Origin::Warden, Durability::Soon)
        .unwrap();
    drop(other);
    let started = Instant::now();
    loop {
        match Trail::open(&place.dir, Options::default()) {
            Ok(_) => break,
            Err(AuditError::Locked { .. }) => assert!(started.elapsed() < Duration::from_secs(20)),
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(good(&place.dir).checkpoints, 1);
    assert_eq!(gaps(&place.dir), []);
}

#[test]
fn after_the_close_everything_is_refused() {
    let place = place();
    let handle = spawn(&place.dir, Options::default());
    let other = handle.clone();
    handle.close_blocking().unwrap();
    let error = other
        .append_blocking(allow(1), Origin::Warden, Durability::Soon)
        .unwrap_err();
    assert!(matches!(error, AuditError::Closed), "{error}");
}

#[test]
fn keys_change_under_load() {
    let place = place();
    runtime().block_on(async {
        let handle = spawn(&place.dir, small());
        for round in 0..3 {
            for number in 0..10 {
                handle
                    .append(allow(round * 10 + number), Origin::Warden, Durability::Soon)
                    .await
                    .unwrap();
            }
            handle.rotate_key().await.unwrap();
        }
        handle.close().await.unwrap();
    });
    assert_eq!(good(&place.dir).keys.len(), 4);
}

/// Run by hand: `cargo test --release -p guard-agent --lib -- --ignored --nocapture throughput`.
#[test]
#[ignore = "a measurement"]
fn throughput() {
    let place = place();
    let count = 200_000;
    let mut trail = Trail::open(&place.dir, Options::default()).unwrap();
    let started = Instant::now();
    for number in 0..count {
        trail
            .append(&allow(number), Origin::Warden, Durability::Soon)
            .unwrap();
    }
    let took = started.elapsed();
    trail.close().unwrap();
    println!(
        "trail, soon: {:.0} records/s",
        f64::from(count) / took.as_secs_f64()
    );
    let bytes: u64 = segments(&place.dir)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    println!("bytes a record: {}", bytes / u64::from(count));
    let started = Instant::now();
    good(&place.dir);
    println!(
        "verify: {:.0} records/s",
        f64::from(count) / started.elapsed().as_secs_f64()
    );
    let started = Instant::now();
    drop(Trail::open(&place.dir, Options::default()).unwrap());
    println!("open: {:?}", started.elapsed());
    for durability in [Durability::Soon, Durability::Sync] {
        for senders in [1, 64] {
            let count = if durability == Durability::Soon {
                64_000
            } else {
                6_400
            };
            let handle = spawn(&place.dir, Options::default());
            let started = Instant::now();
            runtime().block_on(async {
                let work: Vec<_> = (0..senders)
                    .map(|_| {
                        let handle = handle.clone();
                        tokio::spawn(async move {
                            for number in 0..count / senders {
                                handle
                                    .append(allow(number), Origin::Warden, durability)
                                    .await
                                    .unwrap();
                            }
                        })
                    })
                    .collect();
                for task in work {
                    task.await.unwrap();
                }
            });
            let rate = f64::from(count) / started.elapsed().as_secs_f64();
            println!("handle, {senders} senders, {durability:?}: {rate:.0} records/s");
            handle.close_blocking().unwrap();
        }
    }
}
