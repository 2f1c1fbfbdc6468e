//! The tables of layers, and what proofs mean for them.

use super::*;

const GROUNDS: [Ground; 3] = [Ground::Machine, Ground::UserNamespace, Ground::Bare];

/// Everything proved.
fn good(ground: Ground) -> Proofs {
    let mut proofs = Proofs::new(ground);
    for (facet, layers) in layers(ground) {
        for layer in *layers {
            proofs.verdicts.insert((*facet, *layer), Verdict::Enforced);
        }
    }
    proofs
}

fn whole() -> InForce {
    InForce {
        landlock: Landlock {
            abi: 10,
            missing: Vec::new(),
            scopes: true,
        },
        hooks: true,
        ..InForce::default()
    }
}

#[test]
fn a_facet_holds_by_all_the_layers_it_stands_on_and_by_no_other() {
    for ground in GROUNDS {
        let all = facets(&good(ground), &whole());
        for (facet, layers) in layers(ground) {
            let can = needed(ground, *facet).iter().all(|layer| layers.contains(layer));
            assert!(
                can,
                "{ground:?} {facet:?} stands on a layer that is not in its table"
            );
            assert!(holds(ground, *facet, &all), "{ground:?} {facet:?}");
            assert_eq!(all[facet].self_test.as_deref(), Some(PASSED));
            for layer in *layers {
                for verdict in [
                    Verdict::not_enforced("it got through"),
                    Verdict::not_available("it is not there", "change it"),
                ] {
                    let mut proofs = good(ground);
                    proofs.verdicts.insert((*facet, *layer), verdict.clone());
                    let found = facets(&proofs, &whole());
                    let needed = needed(ground, *facet).contains(layer);
                    assert_eq!(
                        holds(ground, *facet, &found),
                        !needed,
                        "{ground:?} {facet:?} {layer}"
                    );
                    assert!(!found[facet].layers.contains(layer));
                    assert!(found[facet].missing.iter().any(|missing| missing.layer == *layer));
                    let through = found[facet].self_test.as_deref() != Some(PASSED);
                    let failed = matches!(verdict, Verdict::NotEnforced(_));
                    assert_eq!(
                        through,
                        failed || found[facet].layers.is_empty(),
                        "{ground:?} {layer}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_was_proved_and_is_not_in_the_sandbox_is_not_in_force() {
    for ground in GROUNDS {
        let found = facets(&good(ground), &InForce::default());
        for facet in [Facet::Fs, Facet::Exec] {
            assert!(!holds(ground, facet, &found), "{ground:?} {facet:?}");
        }
        let mut without_scopes = whole();
        without_scopes.landlock.scopes = false;
        let found = facets(&good(ground), &without_scopes);
        assert!(!found[&Facet::Ipc].layers.contains(&LANDLOCK));
        assert_eq!(holds(ground, Facet::Ipc, &found), ground != Ground::Bare);
    }
}

#[test]
fn hooks_that_were_left_out_are_missing_and_no_failed_test() {
    let mut proofs = good(Ground::Machine);
    let left_out = Verdict::not_enforced("left out");
    proofs.verdicts.insert((Facet::Fs, BpfLsm), left_out);
    assert!(!proofs.hooked());
    for (on_purpose, said) in [(true, PASSED), (false, "bpf-lsm: left out")] {
        proofs.hooks_left_out = on_purpose;
        let found = facets(&proofs, &whole());
        assert_eq!(found[&Facet::Fs].self_test.as_deref(), Some(said));
        assert!(!found[&Facet::Fs].layers.contains(&BpfLsm));
        assert!(holds(Ground::Machine, Facet::Fs, &found));
    }
    // In force on the machine, and not in this sandbox.
    let without = InForce {
        hooks: false,
        ..whole()
    };
    let found = facets(&good(Ground::Machine), &without);
    assert!(!found[&Facet::Fs].layers.contains(&BpfLsm));
    assert!(good(Ground::Machine).hooked());
}

/// The kernel skipped runs of them while the warden lived.
#[test]
fn hooks_that_did_not_always_decide_are_not_claimed() {
    let doubtful = InForce {
        doubt: Some("3 of `mmap_file`".to_owned()),
        ..whole()
    };
    let found = facets(&good(Ground::Machine), &doubtful);
    for facet in [Facet::Fs, Facet::Exec] {
        assert!(!found[&facet].layers.contains(&BpfLsm));
        let missing = found[&facet].missing.iter();
        let why: Vec<&str> = missing
            .filter(|missing| missing.layer == BpfLsm)
            .map(|missing| missing.why.as_str())
            .collect();
        assert_eq!(why, ["3 of `mmap_file`"], "{facet:?}");
        assert!(holds(Ground::Machine, facet, &found));
    }
}

#[test]
fn nothing_tried_is_nothing_enforced() {
    for ground in GROUNDS {
        let found = facets(&Proofs::new(ground), &whole());
        for (facet, enforcement) in &found {
            assert!(enforcement.layers.is_empty(), "{ground:?} {facet:?}");
            assert!(!holds(ground, *facet, &found));
            assert_ne!(enforcement.self_test.as_deref(), Some(PASSED));
        }
    }
}

#[test]
fn a_refusal_names_the_layers_it_stands_on_and_what_to_change() {
    let mut proofs = good(Ground::Machine);
    let change = Verdict::not_available("no Landlock", "add `landlock` to `lsm=`");
    proofs.verdicts.insert((Facet::Fs, LANDLOCK), change);
    let other = Verdict::not_available("no LSM", "something else");
    proofs.verdicts.insert((Facet::Fs, BpfLsm), other);
    let found = facets(&proofs, &whole());
    let unmet = unmet(&[Facet::Net, Facet::Fs], &proofs, &found).unwrap();
    assert_eq!(
        (unmet.facet, unmet.why.as_str()),
        (Facet::Fs, "landlock: no Landlock")
    );
    assert!(
        unmet
            .hint
            .starts_with("add `landlock` to `lsm=`; or drop `fs` from `require`")
    );
    assert_eq!(super::unmet(&[Facet::Net], &proofs, &found), None);
}

#[test]
fn what_a_version_lacks_is_said_where_it_matters() {
    let mut found = whole();
    found.landlock.missing = ["TCP needs", "unix sockets by path needs", "truncation needs"]
        .map(str::to_owned)
        .to_vec();
    let facets = facets(&good(Ground::UserNamespace), &found);
    let about = |facet| {
        facets[&facet]
            .missing
            .iter()
            .map(|missing| missing.why.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(about(Facet::Net), ["TCP needs"]);
    assert_eq!(about(Facet::Ipc), ["unix sockets by path needs"]);
    assert_eq!(about(Facet::Fs), ["truncation needs"]);
    assert!(about(Facet::Exec).is_empty());
}
