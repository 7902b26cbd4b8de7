//! A hardware module (PKCS #11) that signs, by the mechanism CKM_EDDSA. A thread of its own has the session, because the module's calls
//! block; a session that fails is opened again with the module, once for each request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as ModuleError, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;
use ed25519_dalek::{PUBLIC_KEY_LENGTH, Signature, VerifyingKey};
use tokio::sync::{mpsc, oneshot};

use super::holder::{HolderError, KeyHolder, MOST_REQUESTS};
use crate::config::SignerConfig;

/// The DER header of a point of 32 bytes (an OCTET STRING), in which tokens wrap CKA_EC_POINT.
const POINT_HEADER: [u8; 2] = [0x04, 0x20];

type KeyAnswer = oneshot::Sender<Result<VerifyingKey, HolderError>>;
type SignatureAnswer = oneshot::Sender<Result<[u8; Signature::BYTE_SIZE], HolderError>>;

/// A request to the thread of the module.
enum ModuleRequest {
    /// For the public half of the configured key.
    PublicKey(KeyAnswer),
    /// For a signature.
    Sign {
        /// The public half of the key.
        key: Box<VerifyingKey>,
        /// The message.
        message: Vec<u8>,
        /// The place of the signature.
        answer: SignatureAnswer,
    },
}

/// How long a closed signer waits for its thread. A module that calls its device may take longer than a stop of the server may.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The way to the thread that has the module.
pub(super) struct SigningModule {
    // None only while the signer is closed.
    requests: Option<mpsc::Sender<ModuleRequest>>,
    // Disconnected when the thread has closed its session.
    ended: Mutex<Receiver<Infallible>>,
}

impl SigningModule {
    /// Starts the thread. It opens the module with the first request.
    ///
    /// # Errors
    /// When the PIN cannot be read, or the thread cannot start.
    pub(super) fn start(config: &SignerConfig) -> io::Result<Self> {
        let path = config.pin_file.clone().unwrap_or_default();
        let text = crate::keys::read_text(&path)?;
        let text =
            text.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", path.display())))?;
        let token = ModuleToken {
            module: config.module.clone().unwrap_or_default(),
            token: config.token.clone().unwrap_or_default(),
            label: config.key.clone().unwrap_or_default(),
            pin: AuthPin::from(text.lines().next().unwrap_or_default().to_owned()),
        };
        let (requests, waiting) = mpsc::channel(MOST_REQUESTS);
        let (end, ended) = std::sync::mpsc::channel();
        let run = move || {
            serve(&token, waiting);
            drop(end);
        };
        std::thread::Builder::new().name("signing module".to_owned()).spawn(run)?;
        Ok(Self { requests: Some(requests), ended: Mutex::new(ended) })
    }

    async fn ask<T>(
        &self,
        request: ModuleRequest,
        answer: oneshot::Receiver<Result<T, HolderError>>,
    ) -> Result<T, HolderError> {
        let is_busy = |_| HolderError::new("the hardware module has not answered the requests before");
        let ended = || HolderError::new("the thread of the hardware module ended");
        self.requests.as_ref().ok_or_else(ended)?.try_send(request).map_err(is_busy)?;
        answer.await.map_err(|_| ended())?
    }
}

/// Waits until the thread has closed its session: a process that ends during a call of a module may crash in it, because the libraries
/// free their state at exit.
impl Drop for SigningModule {
    fn drop(&mut self) {
        self.requests = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(END_LIMIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the hardware module still has a call after {} s: its session is left open",
                END_LIMIT.as_secs()
            );
        }
    }
}

#[async_trait]
impl KeyHolder for SigningModule {
    async fn public_key(&self) -> Result<VerifyingKey, HolderError> {
        let (answer, key) = oneshot::channel();
        self.ask(ModuleRequest::PublicKey(answer), key).await
    }

    async fn sign(&self, key: &VerifyingKey, message: &[u8]) -> Result<[u8; Signature::BYTE_SIZE], HolderError> {
        let (answer, signature) = oneshot::channel();
        let request = ModuleRequest::Sign { key: Box::new(*key), message: message.to_vec(), answer };
        self.ask(request, signature).await
    }
}

/// The token and its keys, as they are configured.
struct ModuleToken {
    module: PathBuf,
    token: String,
    label: String,
    pin: AuthPin,
}

/// Answers requests until the server has no use for the module.
fn serve(token: &ModuleToken, mut waiting: mpsc::Receiver<ModuleRequest>) {
    let mut state = ModuleState::default();
    while let Some(request) = waiting.blocking_recv() {
        match request {
            ModuleRequest::PublicKey(answer) => {
                let key = state.run(token, |open| open.public_key(&token.label));
                drop(answer.send(key));
            }
            ModuleRequest::Sign { answer, .. } if answer.is_closed() => {}
            ModuleRequest::Sign { key, message, answer } => {
                let signature = state.run(token, |open| open.sign(&key, &message));
                drop(answer.send(signature));
            }
        }
    }
}

/// The library, once it is loaded, and the session, when it is open.
#[derive(Default)]
struct ModuleState {
    open: Option<OpenToken>,
    // Stays loaded: not every library survives being unloaded.
    library: Option<Pkcs11>,
    is_pin_refused: bool,
}

impl ModuleState {
    /// Runs an operation in the session, and once more in a new one when it fails.
    fn run<T>(
        &mut self,
        token: &ModuleToken,
        mut operation: impl FnMut(&mut OpenToken) -> Result<T, OperationError>,
    ) -> Result<T, HolderError> {
        if let Some(open) = &mut self.open {
            match operation(open) {
                Ok(value) => return Ok(value),
                Err(OperationError::Missing(text)) => return Err(HolderError::new(text)),
                Err(OperationError::Module(error)) => tracing::warn!(%error, "the hardware module is opened again"),
            }
            self.close();
        }
        if self.is_pin_refused {
            // Each try counts towards the number after which a token locks the PIN.
            return Err(HolderError::new("the hardware module refused the PIN: correct `signer.pin_file` and restart"));
        }
        let opened = self.load(token).and_then(|library| OpenToken::open(library, token));
        let outcome = opened.and_then(|mut open| {
            let outcome = operation(&mut open);
            self.open = Some(open);
            outcome
        });
        outcome.map_err(|error| {
            self.is_pin_refused = error.is_of_pin();
            if matches!(error, OperationError::Module(_)) {
                self.close();
            }
            HolderError::new(format!("the hardware module: {error}"))
        })
    }

    fn load(&mut self, token: &ModuleToken) -> Result<Pkcs11, OperationError> {
        if let Some(library) = &self.library {
            return Ok(library.clone());
        }
        let library = Pkcs11::new(&token.module)?;
        self.library = Some(library.clone());
        Ok(library)
    }

    /// Ends session and module, so that a module which lost its device begins anew.
    fn close(&mut self) {
        let Some(OpenToken { module, session, .. }) = self.open.take() else { return };
        drop(session);
        drop(module.finalize());
    }
}

/// The reason why an operation on the token failed.
#[derive(Debug, thiserror::Error)]
enum OperationError {
    /// The module failed.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The token has not what was asked for; a new session would not have it either.
    #[error("{0}")]
    Missing(String),
}

impl OperationError {
    const fn is_of_pin(&self) -> bool {
        matches!(self, Self::Module(ModuleError::Pkcs11(RvError::PinIncorrect | RvError::PinLocked, _)))
    }
}

/// An open session of the token's user.
struct OpenToken {
    module: Pkcs11,
    session: Session,
    private_keys: BTreeMap<[u8; PUBLIC_KEY_LENGTH], ObjectHandle>,
}

impl OpenToken {
    fn open(module: Pkcs11, token: &ModuleToken) -> Result<Self, OperationError> {
        match module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
            Ok(()) | Err(ModuleError::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
            Err(error) => return Err(error.into()),
        }
        match Self::log_in(&module, token) {
            Ok(session) => Ok(Self { module, session, private_keys: BTreeMap::new() }),
            Err(error) => {
                drop(module.finalize());
                Err(error)
            }
        }
    }

    fn log_in(module: &Pkcs11, token: &ModuleToken) -> Result<Session, OperationError> {
        let slots = module.get_slots_with_token()?;
        let is_named = |slot| module.get_token_info(slot).is_ok_and(|info| info.label() == token.token);
        let slot = slots.into_iter().find(|slot| is_named(*slot));
        let slot = slot.ok_or_else(|| OperationError::Missing(format!("it has no token `{}`", token.token)))?;
        let session = module.open_ro_session(slot)?;
        match session.login(UserType::User, Some(&token.pin)) {
            Ok(()) | Err(ModuleError::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the public half of the key pair with this label.
    fn public_key(&self, label: &str) -> Result<VerifyingKey, OperationError> {
        let labelled = self.public_objects(Some(Attribute::Label(label.as_bytes().to_vec())))?;
        match labelled.as_slice() {
            [(_, key)] => Ok(*key),
            keys => {
                let count = keys.len();
                Err(OperationError::Missing(format!("{count} Ed25519 public keys have the label `{label}`, not one")))
            }
        }
    }

    fn sign(&mut self, key: &VerifyingKey, message: &[u8]) -> Result<[u8; Signature::BYTE_SIZE], OperationError> {
        let private = self.private_key(key)?;
        let mechanism = Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Ed25519));
        let signature = self.session.sign(&mechanism, private, message)?;
        signature.try_into().map_err(|_| OperationError::Missing("its signature has not 64 bytes".to_owned()))
    }

    /// Returns the private half of a key: the object with the same CKA_ID.
    fn private_key(&mut self, key: &VerifyingKey) -> Result<ObjectHandle, OperationError> {
        if let Some(private) = self.private_keys.get(key.as_bytes()) {
            return Ok(*private);
        }
        let missing = || OperationError::Missing(format!("it has no key pair {}", hex::encode(key.as_bytes())));
        let public = self.public_objects(None)?.into_iter().find(|(_, candidate)| candidate == key);
        let (public, _) = public.ok_or_else(missing)?;
        let attributes = self.session.get_attributes(public, &[AttributeType::Id])?;
        let id = attributes.into_iter().find(|attribute| matches!(attribute, Attribute::Id(_))).ok_or_else(missing)?;
        let template = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(KeyType::EC_EDWARDS), id];
        let private = self.session.find_objects(&template)?.into_iter().next().ok_or_else(missing)?;
        self.private_keys.insert(key.to_bytes(), private);
        Ok(private)
    }

    /// Returns the token's Ed25519 public keys, those with this attribute or all.
    fn public_objects(
        &self,
        attribute: Option<Attribute>,
    ) -> Result<Vec<(ObjectHandle, VerifyingKey)>, OperationError> {
        let mut template = vec![Attribute::Class(ObjectClass::PUBLIC_KEY), Attribute::KeyType(KeyType::EC_EDWARDS)];
        template.extend(attribute);
        let mut keys = Vec::new();
        for object in self.session.find_objects(&template)? {
            for attribute in self.session.get_attributes(object, &[AttributeType::EcPoint])? {
                let Attribute::EcPoint(point) = attribute else { continue };
                keys.extend(read_point(&point).map(|key| (object, key)));
            }
        }
        Ok(keys)
    }
}

/// Reads a point of the curve: 32 bytes, wrapped in DER by most modules.
fn read_point(point: &[u8]) -> Option<VerifyingKey> {
    let bytes = match point.strip_prefix(&POINT_HEADER) {
        Some(bytes) if bytes.len() == PUBLIC_KEY_LENGTH => bytes,
        _ => point,
    };
    VerifyingKey::from_bytes(bytes.try_into().ok()?).ok()
}
