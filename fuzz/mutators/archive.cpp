#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "mutators/mutator.h"
#include "support/zip_maker.h"

#include "espalier/foreign/zip/directory.h"

namespace espalier::fuzz {
namespace {

using testing::ZipPart;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// The entries of an archive that a reader takes; empty for any other file.
std::vector<ZipPart> parts_of(const Bytes& file) {
  constexpr std::uint64_t kMostInflated = 1 << 16;
  const ByteSpan all = view(file);
  const auto tail = all.last(std::min<std::size_t>(all.size(), kZipTailBytes));
  const auto end = read_zip_end(tail, all.size(), {});
  if (!end) return {};
  const auto directory =
      ZipDirectory::read(*end, all.subspan(static_cast<std::size_t>(end->directory_offset),
                                           static_cast<std::size_t>(end->directory_bytes)));
  if (!directory) return {};
  std::vector<ZipPart> parts;
  for (const ZipEntry& entry : directory->entries()) {
    // A name and extra fields follow the local header.
    std::uint16_t extra = 0;
    std::memcpy(&extra, file.data() + entry.header_offset + 28, sizeof extra);
    const std::uint64_t name_end = entry.header_offset + kZipLocalBytes + entry.name.size();
    const std::uint64_t begin = name_end + extra;
    if (begin > all.size() || entry.stored > all.size() - begin) return {};
    ZipPart& part = parts.emplace_back();
    part.name = entry.name;
    part.local_extra = as_text(all.subspan(static_cast<std::size_t>(name_end), extra));
    part.packed = as_text(
        all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(entry.stored)));
    part.data = part.packed;
    if (!entry.is_deflated) continue;
    part.method = 8;
    part.data.resize(static_cast<std::size_t>(std::min(entry.length, kMostInflated)));
    const auto inflated =
        Inflater().run(as_bytes(part.packed),
                       std::as_writable_bytes(std::span(part.data.data(), part.data.size())));
    part.data.resize(inflated ? inflated->made : 0);
  }
  return parts;
}

void change_data(ZipPart& part, std::size_t spare, testing::Random& random,
                 const MutateBytes& mutate) {
  if (part.method != 0 && random.one_in(2)) {  // the stream itself
    Bytes packed = bytes_of(part.packed);
    packed = mutate_anything(std::move(packed), packed.size() + spare, mutate);
    part.packed = text_of(packed);
    return;
  }
  const Bytes data = bytes_of(part.data);
  const std::size_t most = data.size() + spare;
  if (part.name.ends_with(".pkl")) {
    part.data = text_of(mutate_pickle(data, most, random, mutate));
  } else if (part.name.ends_with(".npy")) {
    part.data = text_of(mutate_npy(data, most, random, mutate));
  } else {
    part.data = text_of(mutate_anything(data, most, mutate));
  }
  part.packed = part.method == 0 ? part.data : testing::deflated(part.data);
}

void change_directory(std::vector<ZipPart>& parts, std::size_t at, testing::Random& random,
                      const MutateBytes& mutate) {
  const auto place = parts.begin() + static_cast<std::ptrdiff_t>(at);
  const ZipPart other = random.pick(parts);
  switch (random.below(6)) {
    case 0:
      parts.erase(place);
      break;
    case 1:
      parts.insert(place, other);
      break;
    case 2:
      place->name = other.name;
      break;
    case 3:
      place->name = text_of(mutate_anything(bytes_of(place->name), place->name.size() + 8, mutate));
      break;
    case 4:  // deflated instead of stored, or the reverse
      place->method = place->method == 0 ? 8 : 0;
      place->packed = place->method == 0 ? place->data : testing::deflated(place->data);
      break;
    default:
      std::swap(*place, parts[static_cast<std::size_t>(random.below(parts.size()))]);
      break;
  }
}

}  // namespace

Bytes mutate_archive(const Bytes& file, std::size_t most, testing::Random& random,
                     const MutateBytes& mutate) {
  if (most < file.size() || random.one_in(16)) return mutate_anything(file, most, mutate);
  std::vector<ZipPart> parts = parts_of(file);
  if (parts.empty()) {
    return random.one_in(4) ? mutate_anything(file, most, mutate)
                            : mutate_npy(file, most, random, mutate);
  }
  auto at = static_cast<std::size_t>(random.below(parts.size()));
  if (random.one_in(4)) {
    change_directory(parts, at, random, mutate);
  } else {
    // What has a form is worth more than numbers without one.
    for (std::size_t i = 0; i < parts.size() && random.one_in(2); ++i) {
      if (parts[i].name.ends_with(".pkl")) at = i;
    }
    change_data(parts[at], most - file.size(), random, mutate);
  }
  Bytes made = bytes_of(testing::make_zip(parts));
  if (random.one_in(8)) change_numbers(made, random);
  return made.size() <= most ? made : mutate_anything(file, most, mutate);
}

}  // namespace espalier::fuzz
