//! A round of secure aggregation, with all messages and records.

use std::error::Error;

use ed25519_dalek::SigningKey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use undertone_api::job::dp_sgd::Precision;
use undertone_proto::vector::{VectorForm, read};
use undertone_secure_aggregation::message::{Advertisement, Reveal, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::modulus::Modulus;
use undertone_secure_aggregation::roster::{AcceptedRoster, GroupPolicy, Roster};
use undertone_secure_aggregation::round::RoundContext;
use undertone_secure_aggregation::server::AdvertisementPhase;
use undertone_secure_aggregation::site::SiteRound;
use undertone_worker::site::masked_rounds::MaskedRoundJournal;

use super::{GroupCase, MeasuredRound, RoundCost, add, add_noise, median, plain, timed};

/// The bytes of a message besides its content: lengths, field numbers, the frame of gRPC.
const FRAME: usize = 24;

/// The result of a round of secure aggregation.
pub(super) struct MaskedRound {
    pub(super) round: MeasuredRound,
    /// Whether the opened sum is the plain sum of the integers, bit for bit.
    pub(super) is_exact: bool,
    /// The bytes of one site besides vector and mean.
    pub(super) overhead_bytes: usize,
}

fn advertisement_bytes(advertisement: &Advertisement) -> usize {
    FRAME + 3 * 32 + advertisement.signature.len()
}

fn share_bytes(shares: &[SealedShares]) -> usize {
    FRAME + shares.iter().map(|sealed| 8 + sealed.ciphertext.len()).sum::<usize>()
}

fn signature_bytes(signature: &SurvivorSignature) -> usize {
    FRAME + signature.signature.len()
}

fn reveal_bytes(reveal: &Reveal) -> usize {
    FRAME + 36 * (reveal.seeds.len() + reveal.keys.len())
}

/// Measures a round in which some sites drop out after they have shared. Each site adds noise of `deviation`.
pub(super) fn measure(case: GroupCase, deviation: u32, modulus: Modulus) -> Result<MaskedRound, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let identities: Vec<SigningKey> =
        (0..case.sites).map(|site| SigningKey::from_bytes(&[site as u8 + 1; 32])).collect();
    let keys: Vec<[u8; 32]> = identities.iter().map(|identity| identity.verifying_key().to_bytes()).collect();
    let roster = Roster::new([1; 32], &keys, case.terms)?;
    let policy = GroupPolicy { least_honest: 1 };
    let accept = |identity: &SigningKey| roster.clone().accept(&identity.verifying_key(), policy, |_| true);
    let accepted: Vec<AcceptedRoster> = identities.iter().map(accept).collect::<Result<_, _>>()?;
    let context = RoundContext::new(&roster, "private", 1, case.length as u64, modulus)?;

    let mut key_seconds = vec![0.0; case.sites];
    let mut server_key_seconds = 0.0;
    let mut sites = Vec::with_capacity(case.sites);
    let mut phase = AdvertisementPhase::new(&roster, context);
    for (site, (accepted, identity)) in accepted.iter().zip(&identities).enumerate() {
        let journal = MaskedRoundJournal::new(&folder.path().join(site.to_string()));
        let mut rng = ChaCha20Rng::seed_from_u64(2000 + site as u64);
        let (entered, seconds) = timed(|| {
            let round = SiteRound::enter(accepted, identity, context, journal, &mut rng)?;
            let advertisement = round.advertisement();
            Ok::<_, Box<dyn Error>>((round, advertisement))
        });
        let (round, advertisement) = entered?;
        key_seconds[site] += seconds;
        let (received, seconds) = timed(|| phase.receive(advertisement));
        received?;
        server_key_seconds += seconds;
        sites.push(round);
    }
    let (phase, seconds) = timed(|| phase.close());
    let mut phase = phase?;
    server_key_seconds += seconds;
    let list = phase.advertisements().as_slice().to_vec();
    let mut overhead_bytes =
        list.iter().map(advertisement_bytes).sum::<usize>() + list.first().map_or(0, advertisement_bytes);
    for (site, round) in sites.iter_mut().enumerate() {
        let (shares, seconds) = timed(|| round.share(list.clone()));
        let shares = shares?;
        key_seconds[site] += seconds;
        if site == 0 {
            overhead_bytes += 2 * share_bytes(&shares);
        }
        phase.receive(site as u8, shares)?;
    }
    let mut phase = phase.close()?;
    let mut site_seconds = vec![0.0; case.survivors()];
    let mut server_seconds = 0.0;
    let mut signal = vec![0; case.length];
    let mut expected = vec![0; case.length];
    let survivors = &mut sites[..case.survivors()];
    let mut vector_bytes = 0;
    for (site, round) in survivors.iter_mut().enumerate() {
        let exact = case.signal(site);
        let shares = phase.shares_for(site as u8);
        let noisy = add_noise(site, deviation, &exact);
        let (masked, seconds) = timed(|| round.mask(shares, &noisy));
        let masked = masked?;
        site_seconds[site] += seconds;
        vector_bytes = masked.bytes.len();
        let (received, seconds) = timed(|| phase.receive(&masked));
        received?;
        server_seconds += seconds;
        add(&mut signal, &exact);
        add(&mut expected, &noisy);
    }
    let mut phase = phase.close()?;
    for (site, round) in survivors.iter_mut().enumerate() {
        let set = phase.survivors();
        let (signature, seconds) = timed(|| round.sign(set));
        let signature = signature?;
        site_seconds[site] += seconds;
        let bytes = signature_bytes(&signature);
        let (received, seconds) = timed(|| phase.receive(signature));
        received?;
        server_seconds += seconds;
        if site == 0 {
            // The set, the own signature, and those of all survivors.
            overhead_bytes += FRAME + 8 + bytes * (1 + case.survivors());
        }
    }
    let mut phase = phase.close()?;
    for (site, round) in survivors.iter_mut().enumerate() {
        let (reveal, seconds) = timed(|| round.reveal(phase.signatures()));
        let reveal = reveal?;
        site_seconds[site] += seconds;
        if site == 0 {
            overhead_bytes += reveal_bytes(&reveal);
        }
        phase.receive(reveal)?;
    }
    let (sum, seconds) = timed(|| phase.open());
    let sum = sum?;
    server_seconds += seconds;
    let mean: Vec<f32> = sum.iter().map(|total| (f64::from(*total) / case.survivors() as f64) as f32).collect();
    let (mean, seconds) = timed(|| plain::encode(&mean));
    let mean = mean?;
    server_seconds += seconds;
    let (decoded, seconds) = timed(|| read(&mean, VectorForm::new(Precision::Bf16, case.length as u64)?));
    decoded?;
    let cost = RoundCost {
        site_seconds: median(site_seconds) + seconds,
        server_seconds,
        key_seconds: median(key_seconds) + server_key_seconds,
        bytes: vector_bytes + mean.len() + overhead_bytes,
        // Mask, sign, reveal, and fetch the mean.
        exchanges: 4,
        // Advertise and share.
        key_exchanges: 2,
    };
    let is_exact = sum == expected;
    Ok(MaskedRound { round: MeasuredRound { cost, signal, sum }, is_exact, overhead_bytes })
}
