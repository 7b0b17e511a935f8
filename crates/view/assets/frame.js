// The frame of binary answers, as answer.rs writes it.

const TYPES = { u32: Uint32Array, f64: Float64Array };

/** The header, with its arrays as typed arrays. Each begins at a multiple of 8 bytes. */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const base = Math.ceil((4 + length) / 8) * 8;
  for (const [name, { type, start, length: count }] of Object.entries(header.arrays)) {
    const small = type in TYPES ? null : varints(new Uint8Array(buffer, base + start), count);
    header.arrays[name] = small ? (type === 'signed' ? small.map(signed) : small) : new TYPES[type](buffer, base + start, count);
  }
  return header;
}

/** Numbers of seven bits a byte, the lowest first; the eighth bit says that more follow. */
function varints(bytes, count) {
  const numbers = new Float64Array(count);
  let at = 0;
  for (let index = 0; index < count; index++) {
    let scale = 1;
    let number = 0;
    let byte;
    do {
      byte = bytes[at++];
      number += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte & 0x80);
    numbers[index] = number;
  }
  return numbers;
}

/** The number that a varint of either sign stands for. */
function signed(number) {
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}
