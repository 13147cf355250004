// Mutates checkpoints of Orbax: one file of the folder, by its own format. Envelopes of OCDBT get
// their length and CRC-32C, and the manifest the length of a node that has grown; chunks are packed
// again.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mutators/mutator.h"
#include <zstd.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/zstd_frame.h"
#include "espalier/foreign/ocdbt/envelope.h"

namespace espalier::fuzz {
namespace {

constexpr std::uint64_t kMostUnpacked = 1 << 16;

struct NamedFile {
  Bytes line;  // with the name
  Bytes bytes;
};

std::vector<NamedFile> split_files(const Bytes& input) {
  std::vector<NamedFile> files;
  for (auto begin = input.begin();;) {
    const auto end = std::search(begin, input.end(), kBetweenFiles.begin(), kBetweenFiles.end());
    auto line = std::find(begin, end, std::uint8_t{'\n'});
    if (line != end) ++line;
    files.push_back({{begin, line}, {line, end}});
    if (end == input.end()) return files;
    begin = end + static_cast<std::ptrdiff_t>(kBetweenFiles.size());
  }
}

Bytes join_files(const std::vector<NamedFile>& files) {
  Bytes joined;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i > 0) joined.insert(joined.end(), kBetweenFiles.begin(), kBetweenFiles.end());
    joined.insert(joined.end(), files[i].line.begin(), files[i].line.end());
    joined.insert(joined.end(), files[i].bytes.begin(), files[i].bytes.end());
  }
  return joined;
}

Bytes pack(const Bytes& bytes) {
  Bytes packed(ZSTD_compressBound(bytes.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1));
  return packed;
}

void add_crc(Bytes& bytes) {
  std::byte crc[4];
  store_le(crc, crc32c_after(0, view(bytes)));
  for (const std::byte each : crc) bytes.push_back(std::to_integer<std::uint8_t>(each));
}

Bytes envelope_of(ByteSpan magic, const Bytes& body, bool is_packed) {
  Bytes made(12);
  for (std::size_t i = 0; i < 4; ++i) made[i] = std::to_integer<std::uint8_t>(magic[i]);
  made.push_back(0);
  made.push_back(is_packed ? 1 : 0);
  const Bytes stored = is_packed ? pack(body) : body;
  made.insert(made.end(), stored.begin(), stored.end());
  std::byte length[8];
  store_le(length, std::uint64_t{made.size()} + 4);
  for (std::size_t i = 0; i < 8; ++i) made[4 + i] = std::to_integer<std::uint8_t>(length[i]);
  add_crc(made);
  return made;
}

// Numbers of one to three bytes, as lengths of nodes are.
Bytes varint_of(std::size_t value) {
  Bytes made;
  for (; value > 0x7F; value >>= 7) made.push_back(static_cast<std::uint8_t>(value | 0x80));
  made.push_back(static_cast<std::uint8_t>(value));
  return made;
}

bool is_envelope(const Bytes& file) {
  return has_ocdbt_magic(view(file), OcdbtMagic::kManifest) ||
         has_ocdbt_magic(view(file), OcdbtMagic::kNode);
}

Result<Bytes> body_of(const Bytes& file) {
  const auto magic = has_ocdbt_magic(view(file), OcdbtMagic::kManifest) ? OcdbtMagic::kManifest
                                                                        : OcdbtMagic::kNode;
  const auto body = open_ocdbt_envelope(view(file), magic, kMostUnpacked);
  if (!body) return propagate(body);
  Bytes made;
  for (const std::byte each : *body) made.push_back(std::to_integer<std::uint8_t>(each));
  return made;
}

// A node that has another length now: the others name the old one.
void rename_length(std::vector<NamedFile>& files, std::size_t before, std::size_t now) {
  const Bytes from = varint_of(before);
  const Bytes to = varint_of(now);
  for (NamedFile& file : files) {
    if (!is_envelope(file.bytes)) continue;
    auto body = body_of(file.bytes);
    if (!body) continue;
    // The last one, as lengths stand behind texts.
    const auto at = std::find_end(body->begin(), body->end(), from.begin(), from.end());
    if (at == body->end()) continue;
    const auto position = at - body->begin();
    body->erase(at, at + static_cast<std::ptrdiff_t>(from.size()));
    body->insert(body->begin() + position, to.begin(), to.end());
    file.bytes = envelope_of(view(file.bytes).first(4), *body, false);
  }
}

void mutate_numbers_or_bytes(Bytes& bytes, std::size_t spare, testing::Random& random,
                             const MutateBytes& mutate) {
  if (!bytes.empty() && random.one_in(2)) {
    // In its place, so that what stands behind it does too.
    const std::size_t at = random.below(bytes.size());
    const std::size_t window = std::min<std::size_t>(bytes.size() - at, 1 + random.below(16));
    change_numbers({bytes.data() + at, window}, random);
    if (random.one_in(2)) bytes[at] = static_cast<std::uint8_t>(random.below(256));
    return;
  }
  const std::size_t most = bytes.size() + spare;
  bytes = mutate_anything(std::move(bytes), most, mutate);
}

void mutate_file(std::vector<NamedFile>& files, NamedFile& file, std::size_t spare,
                 testing::Random& random, const MutateBytes& mutate) {
  if (is_envelope(file.bytes)) {
    auto body = body_of(file.bytes);
    if (body) {
      mutate_numbers_or_bytes(*body, spare, random, mutate);
      const std::size_t before = file.bytes.size();
      file.bytes = envelope_of(view(file.bytes).first(4), *body, random.one_in(8));
      if (before != file.bytes.size()) rename_length(files, before, file.bytes.size());
      return;
    }
  } else if (random.one_in(2)) {
    // A packed chunk.
    if (const auto content = decompress_frame(view(file.bytes), kMostUnpacked)) {
      Bytes bytes;
      for (const std::byte each : *content) bytes.push_back(std::to_integer<std::uint8_t>(each));
      mutate_numbers_or_bytes(bytes, spare, random, mutate);
      file.bytes = pack(bytes);
      return;
    }
    // Or one with a checksum, such as the index of a shard with a few chunks.
    if (file.bytes.size() >= 20 &&
        file.line.end() != std::find(file.line.begin(), file.line.end(), '/')) {
      mutate_numbers_or_bytes(file.bytes, 0, random, mutate);
      const std::size_t entries = 16 * (1 + random.below(4));
      if (file.bytes.size() >= entries + 4) {
        const std::size_t end = file.bytes.size() - 4;
        Bytes index(file.bytes.begin() + static_cast<std::ptrdiff_t>(end - entries),
                    file.bytes.begin() + static_cast<std::ptrdiff_t>(end));
        add_crc(index);
        std::copy(index.end() - 4, index.end(),
                  file.bytes.begin() + static_cast<std::ptrdiff_t>(end));
      }
      return;
    }
  }
  mutate_numbers_or_bytes(file.bytes, spare, random, mutate);
}

}  // namespace

Bytes mutate_orbax(const Bytes& input, std::size_t most, testing::Random& random,
                   const MutateBytes& mutate) {
  if (most < input.size() || random.one_in(16)) return mutate_anything(input, most, mutate);
  std::vector<NamedFile> files = split_files(input);
  const std::size_t spare = most - input.size();
  NamedFile& chosen = files[static_cast<std::size_t>(random.below(files.size()))];
  if (random.one_in(24)) {
    mutate_numbers_or_bytes(chosen.line, spare, random, mutate);
  } else if (random.one_in(24)) {
    std::swap(chosen.bytes, files.back().bytes);
  } else {
    mutate_file(files, chosen, spare, random, mutate);
  }
  Bytes joined = join_files(files);
  joined.resize(std::min(joined.size(), most));
  return joined;
}

}  // namespace espalier::fuzz
