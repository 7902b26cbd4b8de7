// Signs approvals with a passkey, and makes one: pages work without it, then a terminal signs. Signs in by a passkey, and registers one.
const hex = buffer => Array.from(new Uint8Array(buffer), byte => byte.toString(16).padStart(2, '0')).join('');
const bytes = text => Uint8Array.from(text.match(/../g) ?? [], pair => parseInt(pair, 16));

// Attributes are read by name: a field that is called `dataset` hides `form.dataset`.
const approve = async form => {
    const { payload, challenge, credentials } = JSON.parse(form.getAttribute('data-approve'));
    const made = await navigator.credentials.get({ publicKey: {
        challenge: bytes(challenge),
        rpId: location.hostname,
        allowCredentials: credentials.map(id => ({ type: 'public-key', id: bytes(id) })),
        userVerification: 'required',
    } });
    const { clientDataJSON, authenticatorData, signature } = made.response;
    return { signature: JSON.stringify({ payload, proof: {
        kind: 'passkey',
        credential: hex(made.rawId),
        client_data: new TextDecoder().decode(clientDataJSON),
        authenticator_data: hex(authenticatorData),
        signature: hex(signature),
    } }) };
};

const make = async form => {
    const { user, name } = JSON.parse(form.getAttribute('data-make-passkey'));
    const made = await navigator.credentials.create({ publicKey: {
        // The new key is believed when a site's operator compares its fingerprint, not for an attestation.
        challenge: crypto.getRandomValues(new Uint8Array(32)),
        rp: { id: location.hostname, name: 'Undertone' },
        user: { id: bytes(user), name, displayName: name },
        pubKeyCredParams: [{ type: 'public-key', alg: -7 }, { type: 'public-key', alg: -8 }],
        authenticatorSelection: { userVerification: 'required' },
        attestation: 'none',
    } });
    return {
        credential: hex(made.rawId),
        algorithm: made.response.getPublicKeyAlgorithm(),
        public_key: hex(made.response.getPublicKey()),
        origin: location.origin,
    };
};

// A challenge of the server, for one of the ceremonies of an account.
const ask = async ceremony => {
    const answer = await fetch('/ui/passkey-challenge', {
        method: 'POST',
        headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ ceremony }),
    });
    const text = await answer.json();
    if (!answer.ok) throw new Error(text);
    return JSON.parse(text);
};

const listed = ids => ids.map(id => ({ type: 'public-key', id: bytes(id) }));
const text = buffer => new TextDecoder().decode(buffer);

// Signs in, or proves the member's identity.
const sign = async ceremony => {
    const { ticket, challenge, relying_party: rpId, credentials } = await ask(ceremony);
    const made = await navigator.credentials.get({ publicKey: {
        challenge: bytes(challenge), rpId, allowCredentials: listed(credentials), userVerification: 'required',
    } });
    const { clientDataJSON, authenticatorData, signature, userHandle } = made.response;
    return {
        ticket,
        credential: hex(made.rawId),
        client_data: text(clientDataJSON),
        authenticator_data: hex(authenticatorData),
        signature: hex(signature),
        user_handle: userHandle ? hex(userHandle) : '',
    };
};

const register = async () => {
    const { ticket, challenge, relying_party: id, credentials, user } = await ask('register');
    const made = await navigator.credentials.create({ publicKey: {
        challenge: bytes(challenge),
        rp: { id, name: 'Undertone' },
        user: { id: bytes(user.handle), name: user.name, displayName: user.name },
        pubKeyCredParams: [{ type: 'public-key', alg: -7 }, { type: 'public-key', alg: -8 }],
        excludeCredentials: listed(credentials),
        authenticatorSelection: { residentKey: 'preferred', userVerification: 'required' },
        attestation: 'none',
    } });
    const { clientDataJSON } = made.response;
    return { ticket, client_data: text(clientDataJSON), authenticator_data: hex(made.response.getAuthenticatorData()) };
};

const use = async form => {
    const ceremony = form.getAttribute('data-passkey');
    return { passkey: JSON.stringify(await (ceremony === 'register' ? register() : sign(ceremony))) };
};

const acts = { 'data-approve': approve, 'data-make-passkey': make, 'data-passkey': use };

// Fills a form's fields with what the passkey gives, then sends it. What went wrong stands in the form. The document listens, because
// a live page replaces its forms.
document.addEventListener('submit', async event => {
    const form = event.target;
    const attribute = Object.keys(acts).find(name => form.hasAttribute(name));
    if (!attribute) return;
    event.preventDefault();
    const problem = form.querySelector('[role=alert]');
    problem.hidden = true;
    try {
        if (!navigator.credentials || !window.PublicKeyCredential) throw new Error('this browser, or this address, has no passkeys');
        for (const [name, value] of Object.entries(await acts[attribute](form))) form.elements[name].value = value;
        form.submit();
    } catch (error) {
        problem.textContent = `The passkey did not sign: ${error.message}`;
        problem.hidden = false;
    }
});
