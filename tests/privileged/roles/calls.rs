//! What a gateway that was taken over could tell of calls.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::{
    audit::{Activity, Call, Identity, Phase, Status},
    link::{
        channel::Channel,
        message::{FromWarden, ToWarden, User},
        told::{Noted, Told},
    },
};
use guard_tests::records::Record;

use super::{LONG, Stage, greet, request, stage};

/// A session whose gateway is the test: its link, and the socket for calls.
fn session(stage: &Stage) -> Result<(Channel, Channel, Vec<OwnedFd>)> {
    let channel = greet(&stage.bench.state())?;
    channel.send(
        &ToWarden::Launch(Box::new(request(&stage.bench, User::Dynamic))),
        &[],
    )?;
    let (answer, mut descriptors) = channel.receive_within::<FromWarden>(LONG)?;
    let FromWarden::Launched(launched) = answer else {
        bail!("{answer:?}")
    };
    ensure!(launched.tells_calls, "{launched:?}");
    let calls = Channel::new(descriptors.remove(3))?;
    // The server goes on as long as somebody holds its pipes.
    Ok((channel, calls, descriptors))
}

/// As far as a gateway can lie.
fn record() -> Box<Call> {
    Box::new(Call {
        session: "s-another".into(),
        server: "another".into(),
        call: Some("77".into()),
        phase: Phase::End,
        flow: "uid:0".into(),
        identity: Identity {
            user: Some("ann".into()),
            via: "run".into(),
            ..Identity::default()
        },
        method: Some("tools/call".into()),
        tool: Some("x".into()),
        prompt: None,
        uri: None,
        arguments: Some("{}".into()),
        arguments_bytes: None,
        gates: Vec::new(),
        status: Some(Status::Ok),
        duration_us: None,
        result: None,
        error: None,
        output_bytes: None,
        redacted: Default::default(),
        kernel: Some(Activity {
            denied: 7u64.into(),
            ..Activity::default()
        }),
        repeat: None,
    })
}

fn begin(calls: &Channel, call: u64, bit: u32) -> Result<()> {
    let record = record();
    Ok(calls.send(&Told::Begin { call, bit, record }, &[])?)
}

fn noted(calls: &Channel, call: u64) -> Result<()> {
    let (noted, _) = calls.receive_within::<Noted>(LONG)?;
    ensure!(noted.call == call, "{noted:?}");
    Ok(())
}

/// The sandbox is killed for it.
fn killed_for_it(stage: &Stage, channel: &Channel) -> Result<()> {
    loop {
        match channel.receive_within::<FromWarden>(LONG)? {
            (FromWarden::Exited(exited), _) => {
                ensure!(exited.reason == "killed", "{exited:?}");
                let cause = exited.cause.as_deref().unwrap_or_default();
                ensure!(cause == "gateway: it broke the protocol of calls", "{cause}");
                return stage
                    .bench
                    .wait_record(LONG, |record| {
                        record.kind == "exit" && record.body["cause"] == cause
                    })
                    .map(drop);
            }
            (FromWarden::Ending, _) => {}
            (other, _) => bail!("{other:?}"),
        }
    }
}

fn of_forged(stage: &Stage, wanted: impl Fn(&Record) -> bool) -> Result<Record> {
    stage.bench.wait_record(LONG, |record| {
        record.kind == "call" && record.body["server"] == "forged" && wanted(record)
    })
}

#[test]
fn whose_call_it_is_and_what_the_kernel_saw_is_not_its_to_say() -> Result<()> {
    let stage = stage("calls-named")?;
    let (channel, calls, _pipes) = session(&stage)?;
    begin(&calls, 5, 3)?;
    noted(&calls, 5)?;
    let body = of_forged(&stage, |record| record.body["phase"] == "begin")?.body;
    let session = body["session"].as_str().context("no session")?.to_owned();
    ensure!(
        session != "s-another" && body["call"] == "5" && body["kernel"].is_null(),
        "{body}"
    );
    ensure!(body["origin"] == "gateway", "{body}");
    let record = record();
    // Of a call that is not there.
    calls.send(
        &Told::End {
            call: 77,
            record: record.clone(),
        },
        &[],
    )?;
    calls.send(
        &Told::End {
            call: 5,
            record: record.clone(),
        },
        &[],
    )?;
    let body = of_forged(&stage, |record| record.body["phase"] == "end")?.body;
    ensure!(
        body["session"] == session && body["call"] == "5" && body["kernel"]["denied"] == 0,
        "{body}"
    );
    // What was refused is no call, and was refused.
    calls.send(&Told::Refused { record }, &[])?;
    let body = of_forged(&stage, |record| record.body["status"] == "denied")?.body;
    ensure!(
        body["session"] == session && body["call"].is_null() && body["kernel"].is_null(),
        "{body}"
    );
    drop((channel, calls));
    Ok(())
}

#[test]
fn what_breaks_the_order_of_calls_ends_the_session() -> Result<()> {
    for breach in [[(1, 0), (1, 1)], [(2, 0), (1, 1)], [(1, 0), (2, 64)]] {
        let stage = stage("calls-broken")?;
        let (channel, calls, _pipes) = session(&stage)?;
        let [(first, bit), (second, wrong)] = breach;
        begin(&calls, first, bit)?;
        noted(&calls, first)?;
        begin(&calls, second, wrong)?;
        killed_for_it(&stage, &channel)?;
    }
    Ok(())
}

/// It neither fills the warden's memory nor keeps it from its work.
#[test]
fn calls_without_end_end_the_session() -> Result<()> {
    let stage = stage("calls-flood")?;
    let (channel, calls, _pipes) = session(&stage)?;
    for call in 1..=10_000 {
        // Its end of the socket goes when the session does.
        if begin(&calls, call, 63).is_err() {
            break;
        }
    }
    killed_for_it(&stage, &channel)?;
    let mut live = stage.live;
    live.send("still")?;
    ensure!(live.line(LONG)? == "still", "the other session is gone");
    Ok(())
}
