-- The process that receives the request, while it arrives: once the process is gone, the key is free. NULL: unknown.
ALTER TABLE idempotency ADD COLUMN owner TEXT;
