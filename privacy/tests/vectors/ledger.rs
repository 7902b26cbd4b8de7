//! ledger.json: admissions of the filters, their state afterwards, and guarantees for groups.

use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::ledger::{Account, Budget, GridKind, Headroom, LedgerError, ReservationId};
use undertone_privacy::mechanism::{gaussian, laplace, poisson_sampled_gaussian, pure};
use undertone_privacy::{Curve, Delta, Fixed, OrderGrid, group};

use crate::case::{VectorCase, cases};
use crate::sums::{BasicFilter, ExactDecimal, GdpFilter};

#[test]
fn every_ledger_vector_holds() {
    for case in cases("ledger") {
        match case.text("kind") {
            "renyi_filter" => {
                renyi_filter(&case);
                account(&case);
            }
            "basic_filter" => basic_filter(&case),
            "gdp_filter" => gdp_filter(&case),
            "group_eps_delta" => {
                let size = case.count("group");
                let (epsilon, delta) = group::epsilon_delta(case.epsilon(), case.delta(), size)
                    .map_or((f64::INFINITY, 1.0), |(epsilon, delta)| (epsilon.get(), delta.get()));
                if case.number("group_delta") < 1.0 {
                    case.bounds(epsilon, case.number("group_epsilon"), 1e-12);
                }
                case.bounds(delta, case.number("group_delta").min(1.0), 1e-12);
            }
            "group_gdp" => {
                let one = GaussianProfile::new(case.number("mu"), 1.0);
                let one = one.unwrap_or_else(|error| panic!("{}: {error}", case.id()));
                // μ grows with the size of the group (Dong, Roth and Su 2022).
                case.bounds(one.mu() * case.count("group") as f64, case.number("group_mu"), 1e-12);
            }
            "group_zcdp" => {
                // ρ-zCDP for a group: size² · ρ (Bun and Steinke 2016).
                let size = case.count("group") as f64;
                case.bounds(case.number("rho") * size * size, case.number("group_rho"), 1e-12);
            }
            _ => case.unknown(),
        }
    }
}

/// Returns one release of a job; the rates of the vectors are decimals, so this does not go through `Event`.
fn release(job: &VectorCase, grid: &OrderGrid) -> Curve {
    match job.text("type") {
        "gaussian" => Curve::evaluated(grid, |order| gaussian(job.number("noise_multiplier"), order.get())),
        "sgm" => Curve::evaluated(grid, |order| {
            poisson_sampled_gaussian(job.number("q"), job.number("noise_multiplier"), order.get())
        }),
        "laplace" => Curve::evaluated(grid, |order| {
            laplace(if job.has("scale") { 1.0 / job.number("scale") } else { job.number("epsilon") }, order.get())
        }),
        "pure" => Curve::evaluated(grid, |order| pure(job.number("epsilon"), order.get())),
        other => panic!("no rule for a job of type `{other}`"),
    }
}

/// Checks the rule itself, on the orders of the case.
fn renyi_filter(case: &VectorCase) {
    let grid = case.grid();
    assert_eq!(case.text("delta_split"), "delta/len(orders)", "{}", case.id());
    let filter = Headroom::of_filter(case.epsilon(), case.delta(), &grid);
    for ((order, share), reference) in filter.remaining().zip(case.numbers("budget")) {
        let got = share.map_or(-1.0, Fixed::to_f64_down);
        assert!(got <= reference.max(-1.0) + reference.abs() * 1e-12, "{}: B({}) is too large", case.id(), order.get());
        let least = reference - reference.abs() * 1e-9 - 1e-12;
        assert!(reference < 0.0 || got >= least, "{}: B({}) is too small", case.id(), order.get());
    }
    let mut spent = Curve::zero(&grid);
    for (job, decision) in case.list("jobs").iter().zip(case.list("decisions")) {
        let job = VectorCase::part(job);
        let decision = VectorCase::part(&decision);
        let cost = release(&job, &grid).times(job.count("count"));
        let admitted = filter.after(&spent).admits(&cost);
        assert_eq!(admitted, decision.truth("admitted"), "{}: {spent:?} and {cost:?}", case.id());
        if admitted {
            spent = spent.add(&cost).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
        }
        for ((_, loss), reference) in spent.losses().zip(decision.numbers("spent_after")) {
            case.bounds(loss.to_f64_up(), reference, 1e-12);
        }
        let alive: Vec<bool> = filter.after(&spent).remaining().map(|(_, left)| left.is_some()).collect();
        let reference: Vec<bool> = decision.list("alive").iter().map(|alive| alive.as_bool() == Some(true)).collect();
        assert_eq!(alive, reference, "{}", case.id());
    }
}

/// Runs the same jobs through a whole account: reserve, commit every release, settle.
fn account(case: &VectorCase) {
    let Some(kind) = [GridKind::Standard, GridKind::Research].into_iter().find(|kind| kind.orders() == case.grid())
    else {
        return;
    };
    let nothing = Delta::new(0.0).unwrap_or_else(|error| panic!("{error}"));
    let Ok(budget) = Budget::with_side_delta(case.epsilon(), case.delta(), nothing, kind) else {
        return;
    };
    let mut account = Account::new(Some(budget));
    for (index, (job, decision)) in case.list("jobs").iter().zip(case.list("decisions")).enumerate() {
        let job = VectorCase::part(job);
        let decision = VectorCase::part(&decision);
        let id = ReservationId(index as u128);
        let cost = release(&job, &case.grid());
        let count = job.count("count");
        let before = account.clone();
        match account.reserve(id, &cost, count) {
            Ok(()) => {
                assert!(decision.truth("admitted"), "{}: job {index} was admitted", case.id());
                for _ in 0..count {
                    account.commit(id).unwrap_or_else(|error| panic!("{}: {error}", case.id()));
                }
                assert_eq!(account.settle(id), Ok(0), "{}", case.id());
            }
            Err(LedgerError::Refused(_)) => {
                assert!(!decision.truth("admitted"), "{}: job {index} was refused", case.id());
                assert_eq!(account, before, "{}: a refusal changed something", case.id());
            }
            Err(error) => panic!("{}: {error}", case.id()),
        }
        for ((_, loss), reference) in account.balance().spent().losses().zip(decision.numbers("spent_after")) {
            case.bounds(loss.to_f64_up(), reference, 1e-12);
        }
    }
}

fn basic_filter(case: &VectorCase) {
    // The shortest text of a parsed number is the decimal of the file.
    let decimal = |case: &VectorCase, key: &str| -> ExactDecimal {
        format!("{:e}", case.number(key)).parse().unwrap_or_else(|error| panic!("{}: {error}", case.id()))
    };
    let mut filter = BasicFilter::new(decimal(case, "epsilon"), decimal(case, "delta"));
    for (job, decision) in case.list("jobs").iter().zip(case.list("decisions")) {
        let job = VectorCase::part(job);
        let decision = VectorCase::part(&decision);
        let admitted = filter.charge(decimal(&job, "epsilon"), decimal(&job, "delta"));
        assert_eq!(admitted, decision.truth("admitted"), "{}", case.id());
        let (epsilon, delta) = filter.spent();
        assert_eq!(epsilon.to_string(), decision.text("eps_spent"), "{}", case.id());
        assert_eq!(delta.to_string(), decision.text("delta_spent"), "{}", case.id());
    }
}

fn gdp_filter(case: &VectorCase) {
    let mut filter = GdpFilter::new(case.epsilon(), case.delta());
    let got = filter.limit();
    let reference = case.number("mu2_budget");
    assert!(got <= reference * (1.0 + 1e-12) && got >= reference * (1.0 - 1e-9), "{}: {got} {reference}", case.id());
    for (job, decision) in case.list("jobs").iter().zip(case.list("decisions")) {
        let job = VectorCase::part(job);
        let decision = VectorCase::part(&decision);
        assert_eq!(job.text("type"), "gaussian", "{}", case.id());
        let admitted = filter.charge(job.number("noise_multiplier"), job.count("count"));
        assert_eq!(admitted, decision.truth("admitted"), "{}", case.id());
        case.bounds(filter.spent(), decision.number("mu2_spent"), 1e-12);
    }
}
