-- Dissects Whimbrel in Wireshark and tshark (3.6 and later). docs/dissector.md is the manual, and docs/protocol.md
-- describes the format.
--
-- Clear packets are always shown. Sealed packets need a key log (preference whimbrel.keylog or WHIMBREL_KEYLOGFILE).
-- AES-128-GCM and ChaCha20-Poly1305 are implemented below, because not every build of Wireshark offers ciphers to Lua.

-- Lua 5.2 has bit32. Every Wireshark has bit, whose results are signed.
local bit = bit32 or bit
local band, bor, bxor, bnot = bit.band, bit.bor, bit.bxor, bit.bnot
local lshift, rshift = bit.lshift, bit.rshift
local lrotate = bit.lrotate or bit.rol
local byte, char, sub, format = string.byte, string.char, string.sub, string.format
local floor, concat = math.floor, table.concat

-- The most items of one kind that are shown of a packet, since hostile packets can contain very many.
local MOST_SHOWN = 1000
local MOST_SUMMARIES = 12
-- How many windows of packet numbers are tried for an id whose earlier packets were not captured.
local SEARCH_AES, SEARCH_CHACHA = 4096, 64
-- How often that search may fail for an id before it is no longer tried.
local MOST_FAILURES = 8

local TWO32 = 4294967296
local NOBODY = ("\0"):rep(8)

local function unhex(text)
    return (text:gsub("%x%x", function(pair) return char(tonumber(pair, 16)) end))
end

local function hex(bytes)
    return (bytes:gsub(".", function(c) return format("%02x", byte(c)) end))
end

local function unsigned(word)
    return word % TWO32
end

local function be32(s, at)
    local a, b, c, d = byte(s, at, at + 3)
    return a * 16777216 + b * 65536 + c * 256 + d
end

local function le32(s, at)
    local a, b, c, d = byte(s, at, at + 3)
    return d * 16777216 + c * 65536 + b * 256 + a
end

local function be_bytes(w)
    w = unsigned(w)
    return char(floor(w / 16777216), floor(w / 65536) % 256, floor(w / 256) % 256, w % 256)
end

local function le_bytes(w)
    w = unsigned(w)
    return char(w % 256, floor(w / 256) % 256, floor(w / 65536) % 256, floor(w / 16777216))
end

-- AES-128 ------------------------------------------------------------------------------------------------------------

local SBOX, T0, T1, T2, T3 = {}, {}, {}, {}, {}
do
    local function double(x)
        return x < 128 and x * 2 or bxor(x * 2, 0x11b)
    end
    -- 3 generates the field, so the loop walks through its powers and those of its inverse together.
    local p, q = 1, 1
    repeat
        p = bxor(p, double(p))
        q = bxor(q, lshift(q, 1))
        q = bxor(q, lshift(q, 2))
        q = band(bxor(q, lshift(q, 4)), 0xff)
        if q >= 128 then q = bxor(q, 0x09) end
        local function rotl(n) return band(bor(lshift(q, n), rshift(q, 8 - n)), 0xff) end
        SBOX[p] = bxor(q, rotl(1), rotl(2), rotl(3), rotl(4), 0x63)
    until p == 1
    SBOX[0] = 0x63
    for i = 0, 255 do
        local s = SBOX[i]
        local s2 = double(s)
        local s3 = bxor(s2, s)
        T0[i] = s2 * 16777216 + s * 65536 + s * 256 + s3
        T1[i] = s3 * 16777216 + s2 * 65536 + s * 256 + s
        T2[i] = s * 16777216 + s3 * 65536 + s2 * 256 + s
        T3[i] = s * 16777216 + s * 65536 + s3 * 256 + s2
    end
end

-- Returns the 44 words of the key schedule, from index 1.
local function aes_schedule(key)
    local w = { be32(key, 1), be32(key, 5), be32(key, 9), be32(key, 13) }
    local rcon = 1
    for i = 5, 44 do
        local t = w[i - 1]
        if i % 4 == 1 then
            t = bxor(
                lshift(bxor(SBOX[band(rshift(t, 16), 0xff)], rcon), 24),
                lshift(SBOX[band(rshift(t, 8), 0xff)], 16),
                lshift(SBOX[band(t, 0xff)], 8),
                SBOX[rshift(t, 24)]
            )
            rcon = rcon < 128 and rcon * 2 or bxor(rcon * 2, 0x11b)
        end
        w[i] = bxor(w[i - 4], t)
    end
    return w
end

local function aes_block(w, a, b, c, d)
    a, b, c, d = bxor(a, w[1]), bxor(b, w[2]), bxor(c, w[3]), bxor(d, w[4])
    for k = 5, 37, 4 do
        a, b, c, d =
            bxor(T0[rshift(a, 24)], T1[band(rshift(b, 16), 0xff)], T2[band(rshift(c, 8), 0xff)], T3[band(d, 0xff)], w[k]),
            bxor(T0[rshift(b, 24)], T1[band(rshift(c, 16), 0xff)], T2[band(rshift(d, 8), 0xff)], T3[band(a, 0xff)], w[k + 1]),
            bxor(T0[rshift(c, 24)], T1[band(rshift(d, 16), 0xff)], T2[band(rshift(a, 8), 0xff)], T3[band(b, 0xff)], w[k + 2]),
            bxor(T0[rshift(d, 24)], T1[band(rshift(a, 16), 0xff)], T2[band(rshift(b, 8), 0xff)], T3[band(c, 0xff)], w[k + 3])
    end
    local function last(p, q, r, s, key)
        return bxor(
            lshift(SBOX[rshift(p, 24)], 24),
            lshift(SBOX[band(rshift(q, 16), 0xff)], 16),
            lshift(SBOX[band(rshift(r, 8), 0xff)], 8),
            SBOX[band(s, 0xff)],
            key
        )
    end
    return last(a, b, c, d, w[41]), last(b, c, d, a, w[42]), last(c, d, a, b, w[43]), last(d, a, b, c, w[44])
end

-- Returns tables for GHASH: 16 multiples of H for each of the 32 positions of a nibble.
local function ghash_tables(w)
    local a, b, c, d = aes_block(w, 0, 0, 0, 0)
    local t = { {}, {}, {}, {} }
    for place = 0, 31 do
        local base = place * 16
        for k = 1, 4 do t[k][base] = 0 end
        for _, weight in ipairs({ 8, 4, 2, 1 }) do
            t[1][base + weight], t[2][base + weight], t[3][base + weight], t[4][base + weight] = a, b, c, d
            local carry = band(d, 1)
            d = bor(rshift(d, 1), lshift(band(c, 1), 31))
            c = bor(rshift(c, 1), lshift(band(b, 1), 31))
            b = bor(rshift(b, 1), lshift(band(a, 1), 31))
            a = rshift(a, 1)
            if carry == 1 then a = bxor(a, 0xe1000000) end
        end
        for n = 3, 15 do
            local high = n >= 8 and 8 or n >= 4 and 4 or 2
            if n ~= high then
                for k = 1, 4 do t[k][base + n] = bxor(t[k][base + high], t[k][base + n - high]) end
            end
        end
    end
    return t
end

local function ghash(t, aad, ciphertext)
    local function padded(s) return s .. ("\0"):rep(-#s % 16) end
    local lengths = be_bytes(0) .. be_bytes(#aad * 8) .. be_bytes(0) .. be_bytes(#ciphertext * 8)
    local s = padded(aad) .. padded(ciphertext) .. lengths
    local ta, tb, tc, td = t[1], t[2], t[3], t[4]
    local y = { 0, 0, 0, 0 }
    for at = 1, #s, 16 do
        local a, b, c, d = 0, 0, 0, 0
        for k = 1, 4 do
            local x = bxor(y[k], be32(s, at + 4 * k - 4))
            local base = 128 * (k - 1)
            local p1, p2 = base + rshift(x, 28), base + 16 + band(rshift(x, 24), 15)
            local p3, p4 = base + 32 + band(rshift(x, 20), 15), base + 48 + band(rshift(x, 16), 15)
            local p5, p6 = base + 64 + band(rshift(x, 12), 15), base + 80 + band(rshift(x, 8), 15)
            local p7, p8 = base + 96 + band(rshift(x, 4), 15), base + 112 + band(x, 15)
            a = bxor(a, ta[p1], ta[p2], ta[p3], ta[p4], ta[p5], ta[p6], ta[p7], ta[p8])
            b = bxor(b, tb[p1], tb[p2], tb[p3], tb[p4], tb[p5], tb[p6], tb[p7], tb[p8])
            c = bxor(c, tc[p1], tc[p2], tc[p3], tc[p4], tc[p5], tc[p6], tc[p7], tc[p8])
            d = bxor(d, td[p1], td[p2], td[p3], td[p4], td[p5], td[p6], td[p7], td[p8])
        end
        y[1], y[2], y[3], y[4] = a, b, c, d
    end
    return y
end

-- ChaCha20 and Poly1305 ----------------------------------------------------------------------------------------------

local function quarter(x, a, b, c, d)
    local xa, xb, xc, xd = x[a], x[b], x[c], x[d]
    xa = (xa + xb) % TWO32; xd = lrotate(bxor(xd, xa), 16)
    xc = (xc + xd) % TWO32; xb = lrotate(bxor(xb, xc), 12)
    xa = (xa + xb) % TWO32; xd = lrotate(bxor(xd, xa), 8)
    xc = (xc + xd) % TWO32; xb = lrotate(bxor(xb, xc), 7)
    x[a], x[b], x[c], x[d] = xa, xb, xc, xd
end

-- Returns sixteen words of key stream. The key and the nonce are little-endian words.
local function chacha_block(key, counter, n1, n2, n3)
    local start = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }
    for i = 1, 8 do start[4 + i] = key[i] end
    start[13], start[14], start[15], start[16] = counter, n1, n2, n3
    local x = {}
    for i = 1, 16 do x[i] = start[i] end
    for _ = 1, 10 do
        quarter(x, 1, 5, 9, 13); quarter(x, 2, 6, 10, 14); quarter(x, 3, 7, 11, 15); quarter(x, 4, 8, 12, 16)
        quarter(x, 1, 6, 11, 16); quarter(x, 2, 7, 12, 13); quarter(x, 3, 8, 9, 14); quarter(x, 4, 5, 10, 15)
    end
    for i = 1, 16 do x[i] = (x[i] + start[i]) % TWO32 end
    return x
end

-- Returns the tag as four little-endian words. `key` is the first key-stream block. Numbers are six limbs of 22 bits,
-- and 2^132 is congruent to 20.
local function poly1305(key, message)
    local M, LIMB = 0x3fffff, 4194304
    local function limbs(a, b, c, d)
        return band(a, M), band(bor(rshift(a, 22), lshift(b, 10)), M), band(bor(rshift(b, 12), lshift(c, 20)), M),
            band(rshift(c, 2), M), band(bor(rshift(c, 24), lshift(d, 8)), M), rshift(d, 14)
    end
    local r0, r1, r2, r3, r4, r5 = limbs(
        band(key[1], 0x0fffffff), band(key[2], 0x0ffffffc), band(key[3], 0x0ffffffc), band(key[4], 0x0ffffffc))
    local s1, s2, s3, s4, s5 = 20 * r1, 20 * r2, 20 * r3, 20 * r4, 20 * r5
    local h0, h1, h2, h3, h4, h5 = 0, 0, 0, 0, 0, 0
    for at = 1, #message, 16 do
        local m0, m1, m2, m3, m4, m5 =
            limbs(le32(message, at), le32(message, at + 4), le32(message, at + 8), le32(message, at + 12))
        -- The AEAD pads every part to 16 bytes, so each block is complete and gets its 2^128.
        h0, h1, h2, h3, h4, h5 = h0 + m0, h1 + m1, h2 + m2, h3 + m3, h4 + m4, h5 + m5 + 262144
        local d0 = h0 * r0 + h1 * s5 + h2 * s4 + h3 * s3 + h4 * s2 + h5 * s1
        local d1 = h0 * r1 + h1 * r0 + h2 * s5 + h3 * s4 + h4 * s3 + h5 * s2
        local d2 = h0 * r2 + h1 * r1 + h2 * r0 + h3 * s5 + h4 * s4 + h5 * s3
        local d3 = h0 * r3 + h1 * r2 + h2 * r1 + h3 * r0 + h4 * s5 + h5 * s4
        local d4 = h0 * r4 + h1 * r3 + h2 * r2 + h3 * r1 + h4 * r0 + h5 * s5
        local d5 = h0 * r5 + h1 * r4 + h2 * r3 + h3 * r2 + h4 * r1 + h5 * r0
        d1 = d1 + floor(d0 / LIMB); h0 = d0 % LIMB
        d2 = d2 + floor(d1 / LIMB); h1 = d1 % LIMB
        d3 = d3 + floor(d2 / LIMB); h2 = d2 % LIMB
        d4 = d4 + floor(d3 / LIMB); h3 = d3 % LIMB
        d5 = d5 + floor(d4 / LIMB); h4 = d4 % LIMB
        h0 = h0 + 20 * floor(d5 / LIMB); h5 = d5 % LIMB
        h1 = h1 + floor(h0 / LIMB); h0 = h0 % LIMB
    end
    local h = { h0, h1, h2, h3, h4, h5 }
    local function carry(l)
        for i = 1, 5 do
            l[i + 1] = l[i + 1] + floor(l[i] / LIMB)
            l[i] = l[i] % LIMB
        end
    end
    for _ = 1, 2 do
        carry(h)
        h[1] = h[1] + 5 * floor(h[6] / 1048576)
        h[6] = h[6] % 1048576
    end
    carry(h)
    local g = { h[1] + 5, h[2], h[3], h[4], h[5], h[6] }
    carry(g)
    if g[6] >= 1048576 then
        g[6] = g[6] % 1048576
        h = g
    end
    local words = {
        h[1] + (h[2] % 1024) * LIMB,
        floor(h[2] / 1024) + (h[3] % 1048576) * 4096,
        floor(h[3] / 1048576) + h[4] * 4 + (h[5] % 256) * 16777216,
        floor(h[5] / 256) + (h[6] % 262144) * 16384,
    }
    local over = 0
    for i = 1, 4 do
        local sum = words[i] + unsigned(key[4 + i]) + over
        over = floor(sum / TWO32)
        words[i] = sum % TWO32
    end
    return words
end

-- Keys ---------------------------------------------------------------------------------------------------------------

-- Both ciphers have these methods:
-- mask(sample) returns five bytes;
-- checker(head, ciphertext, tag) returns a function that tells for a packet number (high and low word) whether the tag
-- is right;
-- open(high, low, ciphertext) returns the plaintext.
local Aes, Chacha = {}, {}
Aes.__index, Chacha.__index = Aes, Chacha

function Aes.new(key, iv, hp)
    return setmetatable({
        name = "AES-128-GCM", search = SEARCH_AES,
        w = aes_schedule(key), hp = aes_schedule(hp), iv = { be32(iv, 1), be32(iv, 5), be32(iv, 9) },
    }, Aes)
end

function Aes:mask(sample)
    local a, b = aes_block(self.hp, be32(sample, 1), be32(sample, 5), be32(sample, 9), be32(sample, 13))
    return sub(be_bytes(a) .. be_bytes(b), 1, 5)
end

function Aes:checker(head, ciphertext, tag)
    self.tables = self.tables or ghash_tables(self.w)
    local y = ghash(self.tables, head, ciphertext)
    local want = {}
    for k = 1, 4 do want[k] = bxor(y[k], be32(tag, 4 * k - 3)) end
    local iv = self.iv
    return function(high, low)
        local a, b, c, d = aes_block(self.w, iv[1], bxor(iv[2], high), bxor(iv[3], low), 1)
        return a == want[1] and b == want[2] and c == want[3] and d == want[4]
    end
end

function Aes:open(high, low, ciphertext)
    local w, n1, n2, n3 = self.w, self.iv[1], bxor(self.iv[2], high), bxor(self.iv[3], low)
    local s = ciphertext .. ("\0"):rep(-#ciphertext % 16)
    local out, counter = {}, 2
    for at = 1, #s, 16 do
        local a, b, c, d = aes_block(w, n1, n2, n3, counter)
        counter = counter + 1
        out[#out + 1] = be_bytes(bxor(a, be32(s, at)))
        out[#out + 1] = be_bytes(bxor(b, be32(s, at + 4)))
        out[#out + 1] = be_bytes(bxor(c, be32(s, at + 8)))
        out[#out + 1] = be_bytes(bxor(d, be32(s, at + 12)))
    end
    return sub(concat(out), 1, #ciphertext)
end

local function swapped(word)
    return le32(be_bytes(word), 1)
end

function Chacha.new(key, iv, hp)
    local function words(s)
        local list = {}
        for i = 1, #s, 4 do list[#list + 1] = le32(s, i) end
        return list
    end
    return setmetatable({
        name = "ChaCha20-Poly1305", search = SEARCH_CHACHA, key = words(key), hp = words(hp), iv = words(iv),
    }, Chacha)
end

function Chacha:mask(sample)
    local x = chacha_block(self.hp, le32(sample, 1), le32(sample, 5), le32(sample, 9), le32(sample, 13))
    return sub(le_bytes(x[1]) .. le_bytes(x[2]), 1, 5)
end

function Chacha:block(counter, high, low)
    return chacha_block(self.key, counter, self.iv[1], bxor(self.iv[2], swapped(high)), bxor(self.iv[3], swapped(low)))
end

function Chacha:checker(head, ciphertext, tag)
    local function padded(s) return s .. ("\0"):rep(-#s % 16) end
    local message = padded(head) .. padded(ciphertext)
        .. le_bytes(#head) .. le_bytes(0) .. le_bytes(#ciphertext) .. le_bytes(0)
    return function(high, low)
        local words = poly1305(self:block(0, high, low), message)
        for k = 1, 4 do
            if words[k] ~= le32(tag, 4 * k - 3) then return false end
        end
        return true
    end
end

function Chacha:open(high, low, ciphertext)
    local s = ciphertext .. ("\0"):rep(-#ciphertext % 64)
    local out, counter = {}, 1
    for at = 1, #s, 64 do
        local x = self:block(counter, high, low)
        counter = counter + 1
        for i = 1, 16 do out[#out + 1] = le_bytes(bxor(x[i], le32(s, at + 4 * i - 4))) end
    end
    return sub(concat(out), 1, #ciphertext)
end

local CIPHERS = { [1] = { make = Aes.new, length = 16 }, [2] = { make = Chacha.new, length = 32 } }

-- State, which is reset for each capture file ------------------------------------------------------------------------

local keys        -- id in hexadecimal: list of { line, cipher }, in the log's order
local log         -- the key log: position up to which it was read, lines seen
local known       -- ids seen in handshakes and NEW_CID, for the heuristic
local reset       -- reset token in hexadecimal: id
local ids         -- id in hexadecimal: { largest, last key, failures }
local frames      -- the key and packet number found on the first pass, by frame and packet

local proto = Proto("whimbrel", "Whimbrel")

local function forget()
    keys, known, reset, ids, frames = {}, {}, {}, {}, {}
    log = { position = 0, seen = {}, lines = 0 }
end
forget()

local function learn_key(line)
    local id, aead, key, iv, hp = line:match("^%s*WHIMBREL_TRAFFIC%s+(%x+)%s+(%d+)%s+(%x+)%s+(%x+)%s+(%x+)%s*$")
    local kind = id and CIPHERS[tonumber(aead)]
    if not kind or #id ~= 16 or #iv ~= 24 or #key ~= 2 * kind.length or #hp ~= 2 * kind.length then return end
    local text = concat({ id, aead, key, iv, hp }, " "):lower()
    if log.seen[text] then return end
    log.seen[text] = true
    log.lines = log.lines + 1
    id = id:lower()
    keys[id] = keys[id] or {}
    if ids[id] then ids[id].failures = 0 end
    table.insert(keys[id], { line = log.lines, cipher = kind.make(unhex(key), unhex(iv), unhex(hp)) })
end

-- Reads the lines that were added to the key log since the last call.
local function read_log()
    local path = proto.prefs.keylog
    if not path or path == "" then path = os.getenv("WHIMBREL_KEYLOGFILE") end
    if not path or path == "" then return end
    local file = io.open(path, "rb")
    if not file then return end
    local size = file:seek("end")
    if size and size ~= log.position then
        if size < log.position then log.position = 0 end
        file:seek("set", log.position)
        local text = file:read("*a") or ""
        local taken = 0
        for line, finish in text:gmatch("([^\r\n]*)[\r\n]+()") do
            learn_key(line)
            taken = finish - 1
        end
        -- A last line without a line end may be complete or still being written, so it is read again next time.
        learn_key(text:sub(taken + 1))
        log.position = log.position + taken
    end
    file:close()
end

-- Blocks -------------------------------------------------------------------------------------------------------------

local BLOCKS = {
    [0] = "DATA", "SACK", "SYN", "SYN-ACK", "PING", "PONG", "FIN", "FIN-ACK", "FIN-DONE", "RST", "ERROR", "PROBE",
    "PROBE-ACK", "PADDING", "SKIP", "SKIP-ACK", [17] = "MAX_STREAM_DATA", [18] = "MAX_STREAMS", [19] = "RESET", [20] = "STOP",
    [21] = "NEW_CID", [22] = "CLOSE_PATH", [23] = "TICKET", [24] = "TAKEN", [25] = "KEEP_ALIVE", [26] = "END", [32] = "ADD_ADDRESS", [33] = "DELETE_ADDRESS", [34] = "SET_PRIMARY",
    [35] = "SUSPEND", [36] = "SUSPEND_ACK", [37] = "SOURCE", [38] = "REPAIR",
}
local CAUSES = {
    [0] = "Application", "Wrong stream", "Unresolved address", "Unrecognized block", "Invalid field", "Missing field",
    "Unrecognized field", "No data", "No info", "Stale info", "Unrecognized", "Credit", "Stream limit",
    "Message too large", "Inconsistent", "Acknowledgement of unsent", "Limit exceeded", "AEAD limit", "Version",
    "Protocol", "Refused", "Shutdown", "Internal",
}
local SERVICES = {
    [0x00] = "us (unreliable, sequenced)", [0x04] = "uu (unreliable, unsequenced)",
    [0x08] = "rs (reliable, sequenced)", [0x0c] = "ru (reliable, unsequenced)",
}
local function service(bits)
    return (SERVICES[bits] or "??"):sub(1, 2)
end

local DELIVERED = { [0] = "skipped", "delivered", "late" }

local F = {} -- name after "whimbrel.": ProtoField
local kinds = {} -- the same name: the kind of field, which decides how it is added to the tree
do
    local dec, hexa = base.DEC, base.HEX
    local function field(kind, name, title, ...)
        F[name] = ProtoField[kind]("whimbrel." .. name, title, ...)
        kinds[name] = kind
    end
    field("string", "type", "Packet type")
    field("uint8", "first", "First byte", hexa)
    field("bytes", "dcid", "Destination connection id")
    field("uint32", "version", "Version", hexa)
    field("bytes", "client_id", "Client's connection id")
    field("bytes", "server_id", "Server's connection id")
    field("uint8", "syn.flags", "Flags", hexa)
    field("bool", "syn.show_key", "Show me your key", 8, nil, 0x01)
    field("bytes", "syn.zeros", "Zeros")
    field("uint8", "syn_ack.flags", "Flags", hexa)
    field("bool", "syn_ack.key_follows", "Key follows", 8, nil, 0x01)
    field("bool", "syn_ack.answers_ping", "Answers a PING", 8, nil, 0x02)
    field("bytes", "syn_ack.key", "Server's static key")
    field("uint64", "cookie_length", "Cookie length", dec)
    field("bytes", "cookie", "Cookie")
    field("uint64", "ticket_length", "Ticket length", dec)
    field("bytes", "ticket", "Ticket")
    field("bytes", "noise.ephemeral", "Noise ephemeral key")
    field("bytes", "noise.static", "Client's static key, sealed")
    field("bytes", "noise.payload", "Parameters and blocks, sealed")

    field("bool", "early", "Sealed under the early secret", 8, nil, 0x40)
    field("uint8", "masked", "Masked flags", hexa, nil, 0x3f)
    field("uint8", "flags", "Flags, unmasked", hexa)
    field("uint8", "reserved", "Reserved", hexa, nil, 0x38)
    field("uint8", "key_phase", "Key phase", dec, nil, 0x04)
    field("uint8", "number_length", "Packet number length - 1", dec, nil, 0x03)
    field("uint32", "truncated_number", "Packet number, truncated", hexa)
    field("uint64", "number", "Packet number", dec)
    field("uint32", "key_line", "Key log entry", dec)
    field("string", "aead", "AEAD")
    field("bytes", "sealed", "Sealed")
    field("bytes", "tag", "AEAD tag")
    field("bytes", "blocks", "Blocks, opened")
    field("bytes", "reset_of", "Stateless reset of id")
    field("bytes", "reset_token", "Reset token")

    field("uint8", "block", "Block type", dec, BLOCKS)
    field("uint64", "unknown.length", "Length", dec)
    field("bytes", "unknown.body", "Body")
    field("uint64", "stream", "Stream", dec)
    field("uint8", "domain", "Order domain", hexa, SERVICES)

    field("uint8", "data.flags", "Flags", hexa)
    for _, flag in ipairs({
        { "end", "E: last fragment", 0x01 }, { "begin", "B: first fragment", 0x02 }, { "unsequenced", "U: unsequenced", 0x04 },
        { "reliable", "R: reliable", 0x08 }, { "has_length", "L: length follows", 0x10 }, { "many", "M: many messages", 0x20 },
        { "has_extras", "X: extras", 0x40 },
    }) do
        field("bool", "data." .. flag[1], flag[2], 8, nil, flag[3])
    end
    field("uint8", "data.service", "Service", hexa, SERVICES)
    field("uint64", "data.number", "Message number", dec)
    field("uint64", "data.offset", "Offset", dec)
    field("uint8", "data.extras", "Extras", hexa)
    for _, flag in ipairs({
        { "has_tag", "Tag", 1 }, { "has_priority", "Priority", 2 }, { "has_ppid", "PPID", 4 },
        { "cross", "Cross-sequenced", 8 }, { "byte_stream", "Byte stream", 16 }, { "confirm", "Confirmation wanted", 32 },
        { "opening", "Opening", 64 },
    }) do
        field("bool", "data." .. flag[1], flag[2], 8, nil, flag[3])
    end
    field("uint64", "data.tag", "Tag", dec)
    field("uint8", "data.priority", "Priority", dec)
    field("uint64", "data.ppid", "PPID", dec)
    field("uint64", "data.latest_reliable", "Latest reliable message + 1", dec)
    field("uint64", "data.message_length", "Message length", dec)
    field("uint64", "data.length", "Payload length", dec)
    field("bytes", "data.payload", "Payload")
    field("none", "data.message", "Message")
    field("uint64", "data.run_length", "Length", dec)

    field("uint8", "sack.flags", "Flags", hexa)
    field("bool", "sack.has_ecn", "ECN counts", 8, nil, 0x01)
    field("bool", "sack.has_duplicates", "Duplicates", 8, nil, 0x02)
    field("uint64", "sack.path", "Path", dec)
    field("uint64", "sack.largest", "Largest", dec)
    field("uint64", "sack.delay", "Delay (µs)", dec)
    field("uint64", "sack.count", "Range count - 1", dec)
    field("none", "sack.range", "Range")
    field("uint64", "sack.gap", "Gap - 1", dec)
    field("uint64", "sack.length", "Length - 1", dec)
    field("uint64", "sack.duplicates", "Duplicates", dec)
    field("uint64", "sack.ect0", "ECT(0)", dec)
    field("uint64", "sack.ect1", "ECT(1)", dec)
    field("uint64", "sack.ce", "CE", dec)

    field("uint64", "cause_count", "Cause count", dec)
    field("uint64", "cause", "Cause", dec, CAUSES)
    field("uint64", "code", "Code", dec)
    field("uint64", "reason_length", "Reason length", dec)
    field("string", "reason", "Reason")
    field("bytes", "challenge", "Challenge")
    field("bytes", "padding", "Zeros")

    field("uint64", "ranges.count", "Range count", dec)
    field("none", "ranges.range", "Range")
    field("uint64", "ranges.gap", "Number gap", dec)
    field("uint64", "ranges.length", "Count", dec)
    field("uint64", "ranges.charge", "Charge (bytes)", dec)
    field("uint64", "ranges.delivered", "Delivered", dec, DELIVERED)

    field("uint64", "limit", "Limit", dec)
    field("uint64", "final_size", "Final size", dec)
    field("uint64", "new_cid.path", "Path", dec)
    field("uint64", "address.sequence", "Sequence", dec)
    field("uint8", "address.family", "Family", dec)
    field("bytes", "address.ip", "Address")
    field("bytes", "address.port", "Port")
    field("bytes", "new_cid.id", "Connection id")
    field("bytes", "new_cid.reset_token", "Reset token")
    field("uint64", "ticket_lifetime", "Lifetime (s)", dec)
    field("uint8", "suspend.heir_length", "Heir length", dec)
    field("bytes", "suspend.heir", "Heir")
    field("uint64", "suspend.wait", "Wait (ms)", dec)
    field("uint64", "coding.number", "Number of the source symbol", dec)
    field("uint64", "coding.first", "First source symbol", dec)
    field("uint64", "coding.count", "Source symbols", dec)
    field("bytes", "coding.key", "Key of the coefficients")
    field("bytes", "coding.sum", "Sum")
    field("none", "more", "Not shown")
end

local fields = {}
for _, f in pairs(F) do fields[#fields + 1] = f end
proto.fields = fields

local E = {
    malformed = ProtoExpert.new("whimbrel.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
    odd = ProtoExpert.new("whimbrel.odd", "Against the specification", expert.group.PROTOCOL, expert.severity.WARN),
    sealed = ProtoExpert.new("whimbrel.not_opened", "Not opened", expert.group.DECRYPTION, expert.severity.NOTE),
    ends = ProtoExpert.new("whimbrel.ends", "Connection ends", expert.group.SEQUENCE, expert.severity.CHAT),
    bug = ProtoExpert.new("whimbrel.dissector_bug", "Dissector bug", expert.group.MALFORMED, expert.severity.ERROR),
}
local experts = {}
for _, e in pairs(E) do experts[#experts + 1] = e end
proto.experts = experts

-- A reader records each field as { name, offset, length, value } in nested lists of items. If a field is malformed, it
-- throws a table.
local Reader = {}
Reader.__index = Reader

function Reader.new(bytes, at)
    return setmetatable({ s = bytes, at = at or 0, items = {} }, Reader)
end

local function malformed(text)
    error({ malformed = text }, 0)
end

function Reader:left()
    return #self.s - self.at
end

function Reader:need(length)
    if length > self:left() then
        self.overrun = true
        malformed("ends before its fields do")
    end
end

function Reader:note(name, offset, length, value, text)
    local item = { name = name, offset = offset, length = length, value = value, text = text }
    self.items[#self.items + 1] = item
    return item
end

function Reader:u8(name)
    self:need(1)
    local value = byte(self.s, self.at + 1)
    local item = self:note(name, self.at, 1, value)
    self.at = self.at + 1
    return value, item
end

function Reader:u32(name)
    self:need(4)
    local value = be32(self.s, self.at + 1)
    self:note(name, self.at, 4, value)
    self.at = self.at + 4
    return value
end

-- Returns the value as a number, which is exact below 2^53. The tree gets the exact value.
function Reader:varint(name)
    self:need(1)
    local first = byte(self.s, self.at + 1)
    local length = lshift(1, rshift(first, 6))
    self:need(length)
    local high, low = 0, first % 64
    for i = 2, length do
        high = high * 256 + floor(low / 16777216)
        low = low % 16777216 * 256 + byte(self.s, self.at + i)
    end
    local value = high * TWO32 + low
    local item = self:note(name, self.at, length, value)
    item.high, item.low = high, low
    self.at = self.at + length
    return value, item
end

function Reader:bytes(name, length)
    self:need(length)
    local from = self.at
    self.at = from + length
    local value = sub(self.s, from + 1, from + length)
    local item = self:note(name, from, length)
    if kinds[name] == "string" then item.value = value end
    return value, item
end

-- Names the flag bits of the item's byte. They are shown under it.
local function bits(item, ...)
    item.bits = { ... }
end

-- Makes the fields that `body` reads the children of a new item. `body` returns the item's text.
function Reader:group(name, body)
    local outer, from = self.items, self.at
    local item = { name = name, offset = from, length = 0, items = {} }
    outer[#outer + 1] = item
    self.items = item.items
    item.text = body(item)
    self.items = outer
    item.length = self.at - from
end

-- Reads `count` groups. Only the first of them are shown.
function Reader:list(name, count, body)
    local done = 0
    while done < count do
        if done < MOST_SHOWN then
            self:group(name, function() return body(done) end)
        else
            local outer = self.items
            self.items = {}
            body(done)
            self.items = outer
        end
        done = done + 1
    end
    if done > MOST_SHOWN then
        self:note("more", self.at, 0, nil, format("%d more are not shown", done - MOST_SHOWN))
    end
end

local function number(n)
    return n < 9007199254740992 and format("%.0f", n) or format("~%.0f", n)
end

local function span(first, last, dash)
    return first == last and number(first) or number(first) .. dash .. number(last)
end

local function printable(text)
    return (text:gsub("[^\32-\126]", function(c) return byte(c) < 128 and "." or c end))
end

local read_block = {}

local function read_data(r)
    local flags, item = r:u8("data.flags")
    bits(item, "data.has_extras", "data.many", "data.has_length", "data.reliable", "data.unsequenced", "data.begin", "data.end")
    if flags >= 0x80 then malformed("unknown flag") end
    local has = function(mask) return band(flags, mask) ~= 0 end
    local begins, ends, many = has(0x02), has(0x01), has(0x20)
    r:note("data.service", item.offset, 1, band(flags, 0x0c))
    local stream = r:varint("stream")
    local first = r:varint("data.number")
    local offset = begins and 0 or r:varint("data.offset")
    local stream_of_bytes, words = false, ""
    if has(0x40) then
        local extras, extras_item = r:u8("data.extras")
        bits(extras_item, "data.has_tag", "data.has_priority", "data.has_ppid", "data.cross", "data.byte_stream", "data.confirm", "data.opening")
        if extras >= 0x80 then malformed("unknown extras") end
        if band(extras, 1) ~= 0 then words = words .. " tag=" .. number((r:varint("data.tag"))) end
        if band(extras, 2) ~= 0 then words = words .. " priority=" .. r:u8("data.priority") end
        if band(extras, 4) ~= 0 then
            local ppid = r:varint("data.ppid")
            if ppid >= TWO32 then malformed("PPID above 32 bits") end
            words = words .. " ppid=" .. number(ppid)
        end
        if band(extras, 8) ~= 0 then r:varint("data.latest_reliable") end
        stream_of_bytes = band(extras, 16) ~= 0
    end
    local declared
    if begins and not ends and not stream_of_bytes then declared = r:varint("data.message_length") end
    local length = has(0x10) and r:varint("data.length") or r:left()
    r:need(length)
    if many and (not (begins and ends) or stream_of_bytes) then malformed("a run of what is not whole messages") end
    if length == 0 and (many or not ends) then malformed("empty fragment") end
    if declared and declared <= length then malformed("a first fragment as long as its message") end
    local what = format("stream=%s %s ", number(stream), service(band(flags, 0x0c)))
    if many then
        local finish, count = r.at + length, 0
        -- A separate reader ensures that no message exceeds the block.
        local run = Reader.new(sub(r.s, 1, finish), r.at)
        run.items = r.items
        local ok, err = pcall(run.list, run, "data.message", math.huge, function(index)
            if run:left() == 0 then error("end of run", 0) end
            local size = run:varint("data.run_length")
            run:bytes("data.payload", size)
            count = index + 1
            return format("Message %s, %s bytes", number(first + index), number(size))
        end)
        if not ok and err ~= "end of run" then
            r.overrun = run.overrun and finish == #r.s
            error(err, 0)
        end
        -- The last group of the list is empty, since it reached the end of the run.
        if count < MOST_SHOWN then
            r.items[#r.items] = nil
        else
            r:note("more", finish, 0, nil, format("%d more are not shown", count - MOST_SHOWN))
        end
        r.at = finish
        return what .. span(first, first + count - 1, "..") .. words
    end
    r:bytes("data.payload", length)
    if begins and ends then
        return what .. number(first) .. words
    end
    local where = begins and format(" of %s", declared and number(declared) or "a byte stream") or ends and ", last" or ""
    return format("%s%s [%s+%s%s]%s", what, number(first), number(offset), number(length), where, words)
end
read_block[0] = read_data

read_block[1] = function(r)
    local flags, item = r:u8("sack.flags")
    bits(item, "sack.has_ecn", "sack.has_duplicates")
    if flags > 3 then malformed("unknown flag") end
    local path = r:varint("sack.path")
    if path >= TWO32 then malformed("path id above 32 bits") end
    local largest = r:varint("sack.largest")
    r:varint("sack.delay")
    local more = r:varint("sack.count")
    if more >= 64 then malformed("more than 64 ranges") end
    local said = {}
    r:list("sack.range", more + 1, function(index)
        if index > 0 then largest = largest - r:varint("sack.gap") - 2 end
        local smallest = largest - r:varint("sack.length")
        if smallest < 0 then malformed("range below zero") end
        local text = span(smallest, largest, "-")
        if index < 4 then said[#said + 1] = text elseif index == 4 then said[#said + 1] = "…" end
        largest = smallest
        return text
    end)
    if band(flags, 2) ~= 0 then r:varint("sack.duplicates") end
    if band(flags, 1) ~= 0 then
        r:varint("sack.ect0")
        r:varint("sack.ect1")
        r:varint("sack.ce")
    end
    return (path > 0 and "path=" .. number(path) .. " " or "") .. concat(said, " ")
end

local function read_reason(r)
    local code = r:varint("code")
    local length = r:varint("reason_length")
    if length > 256 then malformed("reason of more than 256 bytes") end
    local text = r:bytes("reason", length)
    return format("code=%s%s", number(code), text ~= "" and ' "' .. printable(text) .. '"' or "")
end

local function read_cause(r)
    local cause, item = r:varint("cause")
    local name = CAUSES[cause] or "unknown"
    item.text = format("Cause: %s (%s)", name, number(cause))
    return name .. " " .. read_reason(r)
end

read_block[6] = function(r)
    r.ends = true
    return read_reason(r)
end
read_block[7] = function() end
read_block[8] = function(r) r.ends = true end
read_block[9] = function(r)
    r.ends = true
    local count = r:varint("cause_count")
    local said = {}
    for index = 1, count do
        local text = read_cause(r)
        if index <= 3 then said[index] = text end
    end
    return concat(said, "; ")
end
read_block[10] = read_cause
read_block[11] = function(r) r:bytes("challenge", 8) end
read_block[12] = read_block[11]
read_block[13] = function(r)
    local zeros, item = r:bytes("padding", r:left())
    if zeros:find("[^\0]") then item.odd = "Padding is not zeros" end
    return format("%d", #zeros + 1)
end

local function read_ranges(value_name)
    return function(r)
        local stream = r:varint("stream")
        local domain = r:u8("domain")
        if band(domain, 0xf3) ~= 0 then malformed("no such domain") end
        local finish = 0
        local said = {}
        local count = r:varint("ranges.count")
        -- Each range takes at least two bytes, so a count that is too high is refused at once.
        if count * 2 > r:left() then r:need(count * 2) end
        r:list("ranges.range", count, function(index)
            local first = finish + r:varint("ranges.gap")
            local length = r:varint("ranges.length")
            local value = value_name and r:varint(value_name)
            finish = first + length
            if length == 0 or finish > 4611686018427387904 then malformed("range empty or beyond the largest number") end
            local text = span(first, finish - 1, "..")
            if value_name == "ranges.delivered" then
                if not DELIVERED[value] then malformed("neither delivered nor skipped nor late") end
                if value == 2 and length > 256 then malformed("more than 256 that came late") end
                text = text .. " " .. DELIVERED[value]
            end
            if index < 4 then said[#said + 1] = text elseif index == 4 then said[#said + 1] = "…" end
            return text
        end)
        return format("stream=%s %s %s", number(stream), service(domain), concat(said, " "))
    end
end
read_block[14] = read_ranges("ranges.charge")
read_block[15] = read_ranges("ranges.delivered")
read_block[24] = read_ranges(nil)

read_block[17] = function(r)
    local stream = r:varint("stream")
    return format("stream=%s %s", number(stream), number((r:varint("limit"))))
end
read_block[18] = function(r) return number((r:varint("limit"))) end
read_block[19] = function(r)
    local stream, code = r:varint("stream"), r:varint("code")
    return format("stream=%s code=%s size=%s", number(stream), number(code), number((r:varint("final_size"))))
end
read_block[20] = function(r)
    local stream = r:varint("stream")
    return format("stream=%s code=%s", number(stream), number((r:varint("code"))))
end
read_block[26] = function(r)
    local stream = r:varint("stream")
    return format("stream=%s size=%s", number(stream), number((r:varint("final_size"))))
end
read_block[21] = function(r)
    local path = r:varint("new_cid.path")
    local id = hex((r:bytes("new_cid.id", 8)))
    local token = hex((r:bytes("new_cid.reset_token", 16)))
    r.new_ids[id] = token
    return format("path=%s %s", number(path), id)
end
read_block[22] = function(r)
    return format("path=%s", number((r:varint("new_cid.path"))))
end
read_block[32] = function(r)
    local sequence = r:varint("address.sequence")
    local family = r:u8("address.family")
    local lengths = { [4] = 4, [6] = 16 }
    if not lengths[family] then error({ malformed = "ADD_ADDRESS: unknown family" }, 0) end
    local ip = hex((r:bytes("address.ip", lengths[family])))
    local port = r:bytes("address.port", 2)
    return format("sequence=%s %s port %d", number(sequence), ip, byte(port, 1) * 256 + byte(port, 2))
end
read_block[33] = function(r) return format("sequence=%s", number((r:varint("address.sequence")))) end
read_block[34] = function(r)
    local sequence = r:varint("address.sequence")
    return format("sequence=%s path=%s", number(sequence), number((r:varint("new_cid.path"))))
end
read_block[35] = function(r)
    local length = r:u8("suspend.heir_length")
    if length ~= 0 and length ~= 32 then error({ malformed = "SUSPEND: neither a key nor none" }, 0) end
    if length == 0 then return "" end
    return "heir=" .. hex((r:bytes("suspend.heir", length)))
end
read_block[36] = function(r) return format("%s ms", number((r:varint("suspend.wait")))) end
read_block[23] = function(r)
    local lifetime = r:varint("ticket_lifetime")
    local ticket = r:bytes("ticket", r:varint("ticket_length"))
    if #ticket >= 8 then r.new_ids[hex(sub(ticket, 1, 8))] = "" end
    return format("%s s", number(lifetime))
end
read_block[25] = function() end
-- The blocks that follow are the symbol.
read_block[37] = function(r) return format("number=%s", number((r:varint("coding.number")))) end
read_block[38] = function(r)
    local first, count = r:varint("coding.first"), r:varint("coding.count")
    local key = r:bytes("coding.key", 2)
    local sum = r:bytes("coding.sum", r:left())
    local symbols = count > 0 and format("%s..%s", number(first), number(first + count - 1)) or "no symbols"
    return format("%s key=%d, %d bytes", symbols, byte(key, 1) * 256 + byte(key, 2), #sum)
end

-- Reads all blocks. Returns a list of { name, offset, length, items, text, bad }, and the reader.
local function read_blocks(bytes)
    local r = Reader.new(bytes)
    r.new_ids = {}
    local blocks = {}
    while r:left() > 0 do
        local block = { offset = r.at, items = {} }
        r.items = block.items
        r.ends = false
        local kind = r:u8("block")
        block.name = BLOCKS[kind] or format("Unknown block %d", kind)
        local ok, result
        if read_block[kind] then
            ok, result = pcall(read_block[kind], r)
        elseif kind >= 128 then
            ok, result = pcall(function()
                r:bytes("unknown.body", (r:varint("unknown.length")))
            end)
        else
            ok, result = false, { malformed = "not a block of a sealed packet" }
        end
        if not ok and type(result) ~= "table" then error(result, 0) end
        block.ends = r.ends
        if ok then
            block.text = result
            block.length = r.at - block.offset
        else
            block.bad = result.malformed
            block.length = #bytes - block.offset
        end
        blocks[#blocks + 1] = block
        if not ok then break end
    end
    return blocks, r
end

-- The tree -----------------------------------------------------------------------------------------------------------

local function show(tree, tvb, items)
    for _, item in ipairs(items) do
        local range = tvb(item.offset, item.length)
        local kind = kinds[item.name]
        local node
        if kind == "none" then
            node = tree:add(F[item.name], range)
        elseif kind == "bytes" then
            node = tree:add(F[item.name], range)
        elseif kind == "string" then
            node = tree:add(F[item.name], range, printable(item.value))
        elseif kind == "uint64" then
            node = tree:add(F[item.name], range, UInt64.new(item.low, item.high))
        else
            node = tree:add(F[item.name], range, item.value)
        end
        if item.text then node:set_text(item.text) end
        for _, name in ipairs(item.bits or {}) do node:add(F[name], range) end
        if item.odd then node:add_proto_expert_info(E.odd, item.odd) end
        if item.items then show(node, tvb, item.items) end
    end
end

-- Adds blocks to the tree. Returns their text for the Info column.
local function show_blocks(tree, tvb, blocks, cut)
    local said = {}
    for index, block in ipairs(blocks) do
        local text = block.name .. (block.text and block.text ~= "" and " " .. block.text or "")
        if block.bad then text = text .. (cut and " (cut in capture)" or " (malformed)") end
        if index <= MOST_SHOWN then
            local node = tree:add(proto, tvb(block.offset, block.length), text)
            show(node, tvb, block.items)
            if block.ends then node:add_proto_expert_info(E.ends, block.name) end
            if block.bad and not cut then
                node:add_proto_expert_info(E.malformed, block.name .. ": " .. block.bad)
            end
        end
        if index <= MOST_SUMMARIES then
            said[#said + 1] = text
        elseif index == MOST_SUMMARIES + 1 then
            said[#said + 1] = "…"
        end
    end
    if #blocks > MOST_SHOWN then
        tree:add(F["more"], tvb(0, 0)):set_text(format("%d more blocks are not shown", #blocks - MOST_SHOWN))
    end
    return concat(said, ", ")
end

-- Clear packets ------------------------------------------------------------------------------------------------------

local function version_name(version)
    return rshift(version, 16) == 0x5748 and format("v%d", band(version, 0xffff)) or format("version 0x%08x", version)
end

-- Reads a length in a handshake packet. It takes one or two bytes, and must have the shorter form if that suffices.
local function short_length(r, name)
    local value, item = r:varint(name)
    if item.length > 2 or (item.length == 2 and value < 64) then item.odd = "Not the shortest form" end
    return value
end

local function read_noise(r, parts, least)
    local from = r:left()
    if from < least then malformed(format("Noise message of %d bytes, %d are the least", from, least)) end
    r:bytes("noise.ephemeral", 32)
    if parts == 3 then r:bytes("noise.static", 48) end
    r:bytes("noise.payload", r:left())
end

local read_clear = {
    [0x82] = function(r, ids_found)
        local version = r:u32("version")
        ids_found[1] = r:bytes("client_id", 8)
        r.summary = "SYN " .. version_name(version)
        local flags, item = r:u8("syn.flags")
        bits(item, "syn.show_key")
        if flags > 1 and version == 0x57480001 then item.odd = "Unknown flag" end
        if band(flags, 1) ~= 0 then r.summary = r.summary .. ", show key" end
        local zeros, zero_item = r:bytes("syn.zeros", r:left())
        if version == 0x57480001 and zeros:find("[^\0]") then zero_item.odd = "Not zeros" end
        if #r.s ~= 160 then malformed(format("%d bytes, not 160", #r.s)) end
    end,
    [0x83] = function(r, ids_found)
        local version = r:u32("version")
        ids_found[1] = r:bytes("server_id", 8)
        r.summary = "SYN-ACK " .. version_name(version)
        local flags, item = r:u8("syn_ack.flags")
        bits(item, "syn_ack.key_follows", "syn_ack.answers_ping")
        if flags > 3 then item.odd = "Unknown flag" end
        if band(flags, 1) ~= 0 then
            r:bytes("syn_ack.key", 32)
            r.summary = r.summary .. ", key"
        end
        if band(flags, 2) ~= 0 then r.summary = r.summary .. ", answers a PING" end
        r:bytes("cookie", short_length(r, "cookie_length"))
        if r:left() > 0 then malformed(format("%d bytes after the cookie", r:left())) end
        if #r.s > 160 then malformed("longer than SYN") end
    end,
    [0x84] = function(r, ids_found)
        ids_found[1] = r:bytes("client_id", 8)
        r.summary = "PING"
        local length = short_length(r, "cookie_length")
        if length > 0 then
            r:bytes("cookie", length)
        else
            r.summary = "PING with a ticket"
            local ticket, item = r:bytes("ticket", short_length(r, "ticket_length"))
            if sub(ticket, 1, 8) ~= sub(r.s, 2, 9) then item.odd = "Does not begin with the destination id" end
            if #r.s < 160 then malformed("with a ticket and shorter than 160 bytes") end
        end
        read_noise(r, 3, 96)
        r.summary = format("%s, Noise message 1, %d bytes sealed", r.summary, r.items[#r.items].length)
    end,
    [0x85] = function(r, ids_found)
        ids_found[1] = r:bytes("server_id", 8)
        r.summary = "PONG"
        read_noise(r, 2, 48)
        r.summary = format("PONG, Noise message 2, %d bytes sealed", r.items[#r.items].length)
    end,
}

-- Remembers an id for the heuristic. An id of zeros names no connection.
local function learn_id(id)
    if id ~= NOBODY then known[hex(id)] = true end
end

local function dissect_clear(tvb, pinfo, tree, bytes, cut)
    local first = byte(bytes)
    local name = BLOCKS[first - 0x80]
    local r = Reader.new(bytes, 9)
    r.summary = name
    local found = {}
    local ok, err = pcall(read_clear[first], r, found)
    if not ok and type(err) ~= "table" then error(err, 0) end
    if first ~= 0x82 then learn_id(sub(bytes, 2, 9)) end
    if found[1] then learn_id(found[1]) end

    local root = tree:add(proto, tvb(), "Whimbrel " .. name)
    root:add(F["type"], tvb(0, 1), name)
    root:add(F["first"], tvb(0, 1))
    root:add(F["dcid"], tvb(1, 8))
    show(root, tvb, r.items)
    if not ok then
        if cut then
            r.summary = r.summary .. " (cut in capture)"
        else
            root:add_proto_expert_info(E.malformed, name .. ": " .. err.malformed)
            r.summary = r.summary .. " (malformed)"
        end
    end
    pinfo.cols.info:set(r.summary)
    root:set_text("Whimbrel " .. r.summary)
end

-- Sealed packets -----------------------------------------------------------------------------------------------------

-- Returns the full packet number (RFC 9000, section A.3). Numbers must be below 2^53.
local function expand(truncated, length, expected)
    local window = 256 ^ length
    local candidate = expected - expected % window + truncated
    if candidate + window / 2 <= expected then return candidate + window end
    if candidate > expected + window / 2 and candidate >= window then return candidate - window end
    return candidate
end

-- Unmasks the head with a cipher. Returns nil if the reserved bits show that it is the wrong cipher.
local function unmask(cipher, bytes)
    local mask = cipher:mask(sub(bytes, 14, 29))
    local flags = bxor(byte(bytes), band(byte(mask), 0x3f))
    if band(flags, 0x38) ~= 0 then return nil end
    local length = band(flags, 3) + 1
    local truncated = 0
    local head = { char(flags), sub(bytes, 2, 9) }
    for i = 1, length do
        local b = bxor(byte(bytes, 9 + i), byte(mask, 1 + i))
        truncated = truncated * 256 + b
        head[#head + 1] = char(b)
    end
    return { flags = flags, length = length, truncated = truncated, head = concat(head) }
end

-- Finds the key of the id that opens the packet, and the packet number. Returns { key, head, number } or nil.
local function find_key(id, bytes, cut)
    local state = ids[id] or { failures = 0 }
    ids[id] = state
    local candidates = {}
    if state.last then candidates[1] = state.last end
    local list = keys[id] or {}
    for index = #list, 1, -1 do
        if list[index] ~= state.last then candidates[#candidates + 1] = list[index] end
    end
    for _, key in ipairs(candidates) do
        local cipher = key.cipher
        local head = unmask(cipher, bytes)
        if head then
            local body = sub(bytes, 10 + head.length)
            local near = expand(head.truncated, head.length, state.largest and state.largest + 1 or 0)
            local number_found
            if cut then
                -- The tag is missing, so the key is accepted if the blocks parse up to the cut.
                local blocks, r = read_blocks(cipher:open(floor(near / TWO32), near % TWO32, body))
                if #blocks > 0 and (not blocks[#blocks].bad or r.overrun) then number_found = near end
            else
                local right = cipher:checker(head.head, sub(body, 1, -17), sub(body, -16))
                local function try(n)
                    if n >= 0 and n < 2 ^ 53 and right(floor(n / TWO32), n % TWO32) then number_found = n end
                    return number_found
                end
                if not try(near) and state.failures < MOST_FAILURES then
                    local window = 256 ^ head.length
                    for step = 1, state.largest and 16 or cipher.search do
                        if try(near + step * window) or try(near - step * window) then break end
                    end
                end
            end
            if number_found then
                state.largest = math.max(state.largest or 0, number_found)
                state.last = key
                state.failures = 0
                return { key = key, head = head, number = number_found }
            end
        end
    end
    if #candidates > 0 then state.failures = state.failures + 1 end
    return nil
end

local function dissect_sealed(tvb, pinfo, tree, bytes, cut)
    local id = hex(sub(bytes, 2, 9))
    local early = band(byte(bytes), 0x40) ~= 0
    local name = early and "Early" or "Sealed"
    local root = tree:add(proto, tvb(), "Whimbrel " .. name)
    root:add(F["type"], tvb(0, 1), name)
    local flags = root:add(F["first"], tvb(0, 1))
    flags:add(F["early"], tvb(0, 1))
    flags:add(F["masked"], tvb(0, 1))
    root:add(F["dcid"], tvb(1, 8))

    local function done(summary)
        pinfo.cols.info:set(summary)
        root:set_text("Whimbrel " .. summary)
    end
    if #bytes < 29 then
        if not cut then root:add_proto_expert_info(E.malformed, "Shorter than any sealed packet (29 bytes)") end
        return done(format("%s, too short", name))
    end
    local reset_id = not cut and reset[hex(sub(bytes, -16))]
    if reset_id and #bytes <= 42 then
        root:add(F["reset_token"], tvb(#bytes - 16, 16))
        root:add(F["reset_of"], ByteArray.new(reset_id):tvb("Id")(0, 8)):set_generated()
        return done("Stateless reset of " .. reset_id)
    end

    local place = pinfo.number .. ":" .. sub(bytes, 1, 29)
    local opened = frames[place]
    if opened == nil then
        opened = find_key(id, bytes, cut)
        if not opened then
            -- The program may have written its keys since the last look.
            local before = log.lines
            read_log()
            if log.lines ~= before then opened = find_key(id, bytes, cut) end
        end
        frames[place] = opened or nil
    end
    if not opened then
        root:add(F["sealed"], tvb(9))
        local why = keys[id] and "No key in the key log for this id opens it" or "No key for this id"
        root:add_proto_expert_info(E.sealed, why)
        return done(format("%s to %s, %d bytes", name, id, #bytes))
    end

    local head, cipher = opened.head, opened.key.cipher
    local high, low = floor(opened.number / TWO32), opened.number % TWO32
    local body_at = 9 + head.length
    local ciphertext = cut and sub(bytes, body_at + 1) or sub(bytes, body_at + 1, -17)
    local plain = cipher:open(high, low, ciphertext)

    local head_tvb = ByteArray.new(hex(head.head)):tvb("Head, unmasked")
    local unmasked = root:add(F["flags"], head_tvb(0, 1))
    unmasked:add(F["early"], head_tvb(0, 1))
    unmasked:add(F["reserved"], head_tvb(0, 1))
    unmasked:add(F["key_phase"], head_tvb(0, 1))
    unmasked:add(F["number_length"], head_tvb(0, 1))
    root:add(F["truncated_number"], head_tvb(9, head.length), head.truncated)
    root:add(F["number"], head_tvb(9, head.length), UInt64.new(low, high)):set_generated()
    root:add(F["aead"], tvb(0, 0), cipher.name):set_generated()
    root:add(F["key_line"], tvb(0, 0), opened.key.line):set_generated()
    root:add(F["sealed"], tvb(body_at, #ciphertext))
    if not cut then root:add(F["tag"], tvb(#bytes - 16, 16)) end

    local start = format("#%s", number(opened.number))
    if early then start = start .. " early" end
    if plain == "" then
        root:add_proto_expert_info(E.malformed, "A packet without blocks")
        return done(start .. " (empty)")
    end
    local plain_tvb = ByteArray.new(hex(plain)):tvb("Blocks, opened")
    root:add(F["blocks"], plain_tvb())
    local blocks, r = read_blocks(plain)
    for new_id, token in pairs(r.new_ids) do
        known[new_id] = true
        if token ~= "" then reset[token] = new_id end
    end
    done(start .. " " .. show_blocks(root, plain_tvb, blocks, cut and r.overrun))
end

-- Entry points -------------------------------------------------------------------------------------------------------

local function dissect(tvb, pinfo, tree)
    local length = tvb:captured_len()
    if length < 9 then return 0 end
    local first = tvb(0, 1):uint()
    local clear = read_clear[first] ~= nil
    if first >= 0x80 and not clear then return 0 end
    pinfo.cols.protocol:set("Whimbrel")
    local cut = length < tvb:reported_len()
    local ok, err = pcall(clear and dissect_clear or dissect_sealed, tvb, pinfo, tree, tvb:raw(), cut)
    if not ok then
        tree:add(proto, tvb(), "Whimbrel"):add_proto_expert_info(E.bug, "Dissector bug: " .. tostring(err))
    end
    return tvb:reported_len()
end

function proto.dissector(tvb, pinfo, tree)
    return dissect(tvb, pinfo, tree)
end

-- Recognises packets that only Whimbrel sends, and packets to an id known from a handshake or the key log.
local function heuristic(tvb, pinfo, tree)
    local length = tvb:captured_len()
    if length < 22 then return false end
    local bytes = tvb:raw()
    local first = byte(bytes)
    local id = hex(sub(bytes, 2, 9))
    local ours = false
    if first == 0x82 then
        ours = tvb:reported_len() == 160 and sub(bytes, 2, 9) == NOBODY and be32(bytes, 10) - be32(bytes, 10) % 65536 == 0x57480000
    elseif first == 0x83 then
        ours = tvb:reported_len() <= 160 and be32(bytes, 10) - be32(bytes, 10) % 65536 == 0x57480000
    elseif first == 0x84 then
        -- A ticket begins with the destination id. It follows a cookie length of 0 and a ticket length of one or two
        -- bytes.
        local at = byte(bytes, 19) and byte(bytes, 19) < 64 and 20 or 21
        ours = known[id] or length >= 160 and byte(bytes, 18) == 0 and sub(bytes, at, at + 7) == sub(bytes, 2, 9)
    elseif first == 0x85 or first < 0x80 then
        ours = known[id] or keys[id] ~= nil
    end
    if not ours then return false end
    dissect(tvb, pinfo, tree)
    pinfo.conversation = proto
    return true
end

proto.prefs.keylog = Pref.string("Key log file", "",
    "Keys of sealed packets, as written by a program that runs with WHIMBREL_KEYLOGFILE set. "
    .. "If empty, the environment variable WHIMBREL_KEYLOGFILE names the file here, too.")
proto.prefs.ports = Pref.range("UDP ports", "4433", "Packets on these ports are dissected as Whimbrel", 65535)

local udp = DissectorTable.get("udp.port")
local ports
local function register_ports()
    if ports and ports ~= "" then udp:remove(ports, proto) end
    ports = proto.prefs.ports
    if ports and ports ~= "" then udp:add(ports, proto) end
end

function proto.init()
    forget()
    read_log()
end

function proto.prefs_changed()
    if proto.prefs.ports ~= ports then register_ports() end
    forget()
    read_log()
end

if udp.add_for_decode_as then udp:add_for_decode_as(proto) end
register_ports()
proto:register_heuristic("udp", heuristic)
