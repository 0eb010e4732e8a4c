// Webhooks: the published test vector of Standard Webhooks, and what must not pass.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { it } from "node:test";
import { InvalidWebhook, verifyWebhook } from "../src/index.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = `whsec_${Buffer.from("another secret of a rotation").toString("base64")}`;
const SENT_AT = 1614265330;
const BODY = '{"test": 2432232314}';
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const HEADERS = {
  "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
  "webhook-timestamp": `${SENT_AT}`,
  "webhook-signature": SIGNATURE,
};
const AT_THE_TIME = { now: SENT_AT };

it("the published vector is valid", async () => {
  const upper = Object.fromEntries(Object.entries(HEADERS).map(([name, value]) => [name.toUpperCase(), value]));
  for (const headers of [HEADERS, upper, new Headers(HEADERS)]) {
    for (const body of [BODY, new TextEncoder().encode(BODY), Buffer.from(BODY)]) {
      assert.deepEqual(await verifyWebhook(SECRET, headers, body, AT_THE_TIME), { test: 2432232314 });
    }
  }
});

it("one of several secrets and one of several signatures are enough", async () => {
  for (const secrets of [[OTHER, SECRET], [SECRET, OTHER]]) {
    assert.ok(await verifyWebhook(secrets, HEADERS, BODY, AT_THE_TIME));
  }
  const headers = { ...HEADERS, "webhook-signature": `v1a,AAAA v1,AAAA v1,! ${SIGNATURE}` };
  assert.ok(await verifyWebhook(SECRET, headers, BODY, AT_THE_TIME));
});

it("what was changed or signed otherwise is refused", async () => {
  const ofNoKey = createHmac("sha256", "").update(`${HEADERS["webhook-id"]}.${SENT_AT}.${BODY}`).digest("base64");
  for (const [secrets, changes, body] of [
    [SECRET, {}, `${BODY} `],
    [OTHER, {}, BODY],
    [[], {}, BODY],
    [SECRET, { "webhook-id": "msg_other" }, BODY],
    [SECRET, { "webhook-timestamp": `${SENT_AT + 1}` }, BODY],
    [SECRET, { "webhook-timestamp": ` ${SENT_AT}` }, BODY],
    [SECRET, { "webhook-timestamp": "NaN" }, BODY],
    [SECRET, { "webhook-signature": "" }, BODY],
    [SECRET, { "webhook-signature": "v1," }, BODY],
    [SECRET, { "webhook-signature": "v1,ü" }, BODY],
    [SECRET, { "webhook-signature": SIGNATURE.replace("v1", "v2") }, BODY],
    [SECRET, { "webhook-signature": `v1,${ofNoKey}` }, BODY],
    [SECRET, { "webhook-signature": undefined }, BODY],
  ]) {
    const verified = verifyWebhook(secrets, { ...HEADERS, ...changes }, body, AT_THE_TIME);
    await assert.rejects(verified, InvalidWebhook, JSON.stringify(changes));
  }
});

it("the time may differ by five minutes in both directions", async () => {
  for (const now of [SENT_AT - 300, SENT_AT + 300]) assert.ok(await verifyWebhook(SECRET, HEADERS, BODY, { now }));
  for (const now of [SENT_AT - 301, SENT_AT + 301, NaN, undefined]) {
    await assert.rejects(verifyWebhook(SECRET, HEADERS, BODY, { now }), InvalidWebhook);
  }
});

it("a secret that is no base64 or empty is refused", async () => {
  for (const secret of ["whsec_", "", "whsec_!!!"]) {
    await assert.rejects(verifyWebhook(secret, HEADERS, BODY, AT_THE_TIME), TypeError);
  }
});
