// A provider of sign-ins on loopback, for tests: `node provider.mjs FOLDER REDIRECT`, where FOLDER is what .ci/oidc.sh
// printed. Whoever names themself is believed, whatever the password; names that begin with "unverified" have an e-mail
// that nobody has made sure of. Says where it listens, then serves until it is ended.

import http from 'node:http';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

const [folder, redirect] = process.argv.slice(2);
const entry = path.join(folder, 'node_modules/oidc-provider/lib/index.js');
const { Provider } = await import(pathToFileURL(entry));

const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'undertone', client_secret: 'a secret of the client', redirect_uris: [redirect] }],
    claims: { email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['for tests'] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id.replace(/^unverified-/, '').replace(/\+.*/, '')}@example.org`,
        email_verified: !id.startsWith('unverified'),
        name: `${id} of the provider`,
      }),
    }),
  });
  server.on('request', provider.callback());
  console.log(`listening at ${issuer}`);
});
