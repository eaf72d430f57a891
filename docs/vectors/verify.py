#!/usr/bin/env python3
"""Checks blocks.txt and handshake.txt with nothing of ours: fields encoded as written beside the blocks and in protocol.md; Noise IK
written out, HKDF by hmac, X25519 and AEADs by `cryptography`."""
import hashlib, hmac, pathlib, re

here=pathlib.Path(__file__).parent

def varint(value):
    for bits,size in((0,1),(1,2),(2,4),(3,8)):
        if value<1<<8*size-2: return (value|bits<<8*size-2).to_bytes(size,'big')

def encoded(how,value):
    if how=='v': return varint(int(value))
    if how=='2v': return (int(value)|1<<14).to_bytes(2,'big')
    if how in('1','2','8'): return int(value).to_bytes(int(how),'big')
    raw=bytes.fromhex(value); assert how is None or len(raw)==int(how)
    return raw

def check_blocks():
    layouts=' '.join((here.parent/'protocol.md').read_text().split())
    # What a block has of these depends on its flags, or repeats: protocol.md says so in words.
    vary='data sack skip skip_ack taken rst add_address suspend padding fin_ack fin_done keep_alive'.split()
    blocks=re.findall(r'^(\S+) = ([0-9a-f]+)\n    (.+)$',(here/'blocks.txt').read_text(),re.M); assert blocks
    for name,wire,fields in blocks:
        parts=[re.fullmatch(r'(.+?)(?: \((\d*v?)\))? = (\S+)',field).groups() for field in fields.split(' · ')]
        assert b''.join(encoded(how,value) for _,how,value in parts).hex()==wire,name
        layout=' · '.join(f'{what} ({how})' if how else what for what,how,_ in parts[1:])
        if name.split('.')[0] not in vary:
            layout=layout.replace('lifetime (v)','lifetime (v, s)').replace('wait (v)','wait (v, ms)')
            assert f'`{layout}`' in layouts,f'{name}: protocol.md has no `{layout}`'
    check_repair(*(bytes.fromhex(dict((name,wire) for name,wire,_ in blocks)[name]) for name in('source','repair')))
    print('blocks.txt: right,',len(blocks),'blocks')

def check_repair(source,repair):
    """The repair symbol of the vectors combines the source symbol of the vectors and one of two bytes."""
    def times(a,b):
        product=0
        while b: product^=a*(b&1); a=a<<1^(0x11d if a&0x80 else 0); b>>=1
        return product
    def coefficient(key,number):
        wrap=(1<<64)-1; z=(number<<16|key)*0x9e3779b97f4a7c15&wrap
        z=(z^z>>30)*0xbf58476d1ce4e5b9&wrap; z=(z^z>>27)*0x94d049bb133111eb&wrap
        return (z^z>>31)%255+1
    symbols=[source[3:],b'ab']; framed=[len(s).to_bytes(2,'big')+s for s in symbols]; total=bytearray(max(map(len,framed)))
    for number,symbol in enumerate(framed,300):
        for at,byte in enumerate(symbol): total[at]^=times(coefficient(7,number),byte)
    assert repair[-len(total):]==bytes(total)

check_blocks()

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey as SK, X25519PublicKey as PK
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
secs=(here/'handshake.txt').read_text().split('\n# ')
def kv(t): return {a:bytes.fromhex(b) for a,b in re.findall(r'^(\S+) = ([0-9a-f]*)$',t,re.M)}
H={}
for s in secs[1:7]: H.update(kv(s))
b2=lambda *p: hashlib.blake2s(b''.join(p)).digest()
hm=lambda k,d: hmac.new(k,d,hashlib.blake2s).digest()
def hk(ck,ikm,n):
    t=hm(ck,ikm); o=[];p=b''
    for i in range(n): p=hm(t,p+bytes([i+1])); o.append(p)
    return o
dh=lambda a,b: SK.from_private_bytes(a).exchange(PK.from_public_bytes(b))
pub=lambda a: SK.from_private_bytes(a).public_key().public_bytes_raw()
cs,ss_,ce,se_=[H[k+'.private'] for k in('client.static','server.static','client.ephemeral','server.ephemeral')]
name=b'Noise_IK_25519_ChaChaPoly_BLAKE2s'
hh=name.ljust(32,b'\0') if len(name)<=32 else b2(name); ck=hh
sa=H['syn_ack']; assert hashlib.sha256(H['syn']+sa[:22]).digest()==H['prologue']
hh=b2(hh,H['prologue']); hh=b2(hh,pub(ss_)); first=hh
def enc(k,n,ad,p): return ChaCha20Poly1305(k).encrypt(b'\0'*4+n.to_bytes(8,'little'),p,ad)
m=pub(ce); hh=b2(hh,m)
ck,k=hk(ck,dh(ce,pub(ss_)),2); c=enc(k,0,hh,pub(cs)); m+=c; hh=b2(hh,c)
ck,k=hk(ck,dh(cs,pub(ss_)),2); c=enc(k,0,hh,H['message_1.payload']); m+=c; hh=b2(hh,c)
ping=H['ping']; assert ping.endswith(m) and len(ping)==9+8+2+65+len(m)
m=pub(se_); hh=b2(hh,m)
ck,k=hk(ck,dh(se_,pub(ce)),2); ck,k=hk(ck,dh(se_,pub(cs)),2)
c=enc(k,0,hh,H['message_2.payload']); m+=c; hh=b2(hh,c)
assert H['pong'][17:]==m and hh==H['handshake_hash']
k1,k2=hk(ck,b'',2); assert (k1,k2)==(H['raw_split.client'],H['raw_split.server'])
def hkdf(s,info,n):
    o=b'';p=b'';i=1
    while len(o)<n: p=hmac.new(s,p+info+bytes([i]),hashlib.sha256).digest(); o+=p; i+=1
    return o[:n]
expand=lambda s,l,n: hkdf(s,b'whimbrel '+l,n)
for n,base in(('early',H['early_secret']),('client',k1),('server',k2)):
    s=expand(base,n.encode(),32); assert s==H[n+'.secret']
    for l,L in(('key',16),('iv',12),('hp',16)): assert expand(s,l.encode(),L)==H[f'{n}.{l}']
    assert expand(s,b'ku',32)==H[n+'.next_secret']
rk=expand(expand(ss_,b'reset',32),b'instance'+H['reset.salt'],32); assert hmac.new(rk,H['reset.id'],hashlib.sha256).digest()[:16]==H['reset.token']
rs=expand(expand(k1,b'client',32),b'resume',32); assert (rs,first)==(H['resume.secret'],H['resume.hash'])
what=bytes([0x11])*16+(1).to_bytes(8,'big')
assert H['resume.parameter']==what+hmac.new(expand(rs,b'resume proof',32),first+what,hashlib.sha256).digest()
assert H['resume.next_secret']==expand(rs,b'ratchet'+rs,32)
xs=expand(expand(k1,b'client',32),b'exporter',32); assert xs==H['exporter.secret']
label,context=H['exporter.label'],H['exporter.context']
assert hkdf(xs,b'whimbrel export '+len(label).to_bytes(8,'big')+label+context,80)==H['exporter.output']
def read_varint(b): n=1<<(b[0]>>6); return int.from_bytes(b[:n],'big')&((1<<8*n-2)-1),b[n:]
def parameters(b):
    found={}
    while True:
        id,b=read_varint(b)
        if id==0: assert not b; return found
        assert id>max(found,default=0)
        n,b=read_varint(b); found[id],b=b[:n],b[n:]
for name in('of_this_version','with_unknown_bits','of_unknown_bits'):
    bits,rest=read_varint(parameters(H['extensions.'+name])[16]); assert not rest
    assert bytes([bits&7])==H[f'extensions.{name}.taken'],name
    assert name=='of_this_version' or bits>1
assert H['extensions.of_this_version'].endswith(varint(16)+varint(1)+varint(7)+varint(0))
for i,s in enumerate(secs[7:]):
    P=kv(s); L=16 if i==0 else 32; sec=P['packet.secret']
    key,iv,hp=[expand(sec,l,n) for l,n in((b'key',L),(b'iv',12),(b'hp',L))]
    nonce=bytes(a^b for a,b in zip(iv,(2).to_bytes(4,'big')+(0x3a5b7).to_bytes(8,'big')))
    ct=(AESGCM if i==0 else ChaCha20Poly1305)(key).encrypt(nonce,P['packet.blocks'],P['packet.head'])
    w=bytearray(P['packet.head']+ct); sample=bytes(w[13:29]); assert sample==P['packet.sample']
    mask=Cipher(algorithms.AES(hp),modes.ECB()).encryptor().update(sample)[:5] if i==0 else Cipher(algorithms.ChaCha20(hp,sample),None).encryptor().update(b'\0'*5)
    assert mask==P['packet.mask']
    w[0]^=mask[0]&0x3f
    for j in range(3): w[9+j]^=mask[1+j]
    assert bytes(w)==P['packet.wire']
print('handshake.txt: right')
