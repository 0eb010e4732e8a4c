// The form of a stream, however it is cut into pieces.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Lines } from "../src/events.js";

it("messages are whole however they are cut", () => {
  const text = 'retry: 1500\n\n: still here\r\n\nid: 1\ndata: {"a":"ü"}\n\nevent: progress\r\ndata:{}\r\ndata: x\r\n\r\nid: 2\ndata: y';
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size += 1) {
    const lines = new Lines();
    const whole = [];
    for (let at = 0; at < bytes.length; at += size) whole.push(...lines.push(bytes.subarray(at, at + size)));
    assert.deepEqual(whole, [{ event: "", data: '{"a":"ü"}' }, { event: "progress", data: "{}\nx" }], `${size}`);
    assert.equal(lines.retryMs, 1500);
  }
});
