#include "espalier/foreign/gguf/opener.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/release.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/gguf/format.h"
#include "espalier/foreign/gguf/tables.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// After the first 64 KiB: most headers with the vocabulary of a language model have 4 to 16 MiB.
constexpr std::uint64_t kWindows[] = {kFirstReadBytes, std::uint64_t{512} << 10,
                                      std::uint64_t{4} << 20, std::uint64_t{16} << 20};

// Where the window ends that has the first `needed` bytes.
std::uint64_t window_end(std::uint64_t needed) {
  for (const std::uint64_t window : kWindows) {
    if (needed <= window) return window;
  }
  // Growing by a factor keeps the work linear, as a long array is read again from its beginning.
  std::uint64_t window = kWindows[std::size(kWindows) - 1];
  while (window < needed) window *= 4;
  return window;
}

// A u16 among the key-value pairs; 0 if there is none of that key.
std::uint16_t find_u16(const GgufHeader& header, ByteSpan bytes, std::string_view key) {
  for (const GgufPair& pair : header.pairs()) {
    if (pair.type == GgufType::kU16 &&
        as_text(bytes.subspan(pair.key.offset, pair.key.length)) == key) {
      return load_le<std::uint16_t>(bytes.data() + pair.value.offset);
    }
  }
  return 0;
}
constexpr std::string_view kSplitNumber = "split.no";
constexpr std::string_view kSplitCount = "split.count";

// "-00001-of-00003.gguf": how the names of the files of one model end. `number` begins at 0.
std::string split_ending(std::uint32_t number, std::uint32_t count) {
  const auto digits = [](std::uint32_t value) {
    const std::string text = std::to_string(value);
    return std::string(5 - text.size(), '0') + text;
  };
  return "-" + digits(number + 1) + "-of-" + digits(count) + ".gguf";
}

}  // namespace

bool looks_like_gguf(ByteSpan front, std::uint64_t) {
  return as_text(front).starts_with(kGgufMagic);
}

GgufOpener::GgufOpener(const OpenOptions& options) : StepOpener(options) {
  parts_.emplace_back(0, options.file_size, options.limits);
}

Result<void> GgufOpener::step() {
  Part& first = parts_.front();
  if (!first.is_complete) {
    if (first.bytes.empty()) first.bytes.assign(front().begin(), front().end());
    if (auto ok = read_on(first); !ok) return ok;
    return first.is_complete ? want_further_files() : Result<void>{};
  }
  if (!are_further_open_) open_further_files();
  for (Part& part : parts_) {
    if (part.is_complete || part.is_lost) continue;
    auto ok = read_on(part);
    if (ok && part.is_complete) ok = check_further(part);
    if (!ok) lose(part, std::move(ok.error()));
  }
  return {};
}

// A model in several files: each says how many there are, and which one it is. llama.cpp finds the
// others by their names, and so does this.
Result<void> GgufOpener::want_further_files() {
  const Part& first = parts_.front();
  const std::uint32_t count = find_u16(first.header, first.bytes, kSplitCount);
  const std::uint32_t number = find_u16(first.header, first.bytes, kSplitNumber);
  if (count <= 1) return {};
  const std::string which = "this is file " + std::to_string(number + 1) + " of the " +
                            std::to_string(count) + " of a model";
  if (number != 0) {
    notes_.add({Note::Kind::kLoss, {}, which + "; open the first for the tensors of all"});
    return {};
  }
  const std::string ending = split_ending(0, count);
  const std::string_view name = options().name;
  if (!name.ends_with(ending)) {
    notes_.add({Note::Kind::kLoss,
                {},
                which + ", and the others cannot be found: its name does not end with " + ending});
    return {};
  }
  const std::string stem(name.substr(0, name.size() - ending.size()));
  std::vector<std::string> others;
  for (std::uint32_t i = 1; i < count; ++i) others.push_back(stem + split_ending(i, count));
  return want_files(std::move(others));
}

void GgufOpener::open_further_files() {
  are_further_open_ = true;
  for (std::uint32_t file = 1; file < files().size(); ++file) {
    // The driver's error stands with the file.
    if (files()[file].problem) continue;
    parts_.emplace_back(file, files()[file].length, options().limits);
  }
}

// What lies in the other files can be opened.
void GgufOpener::lose(Part& part, Error error) {
  part.is_lost = true;
  release_memory(part.bytes);
  FileEntry& file = files()[part.file];
  error.file = file.name;
  file.problem = std::move(error);
}

Result<void> GgufOpener::check_further(const Part& part) const {
  const Part& first = parts_.front();
  const std::uint32_t count = find_u16(first.header, first.bytes, kSplitCount);
  if (find_u16(part.header, part.bytes, kSplitCount) == count &&
      find_u16(part.header, part.bytes, kSplitNumber) == part.file) {
    return {};
  }
  return fail(ErrorCode::kForeignInvalid, "it does not say that it is file " +
                                              std::to_string(part.file + 1) + " of " +
                                              std::to_string(count));
}

Result<void> GgufOpener::read_on(Part& part) {
  auto complete = part.header.read_on(part.bytes);
  if (!complete) return propagate(complete);
  part.is_complete = *complete;
  if (part.is_complete) return {};
  const std::uint64_t have = part.bytes.size();
  const std::uint64_t end = std::min({window_end(part.header.needed()), files()[part.file].length,
                                      options().limits.gguf_header_bytes});
  part.bytes.resize(static_cast<std::size_t>(end));
  want({part.file, have, end - have},
       MutableByteSpan(part.bytes).subspan(static_cast<std::size_t>(have)));
  return {};
}

Result<Checkpoint> GgufOpener::build() {
  std::vector<GgufPart> parts;
  for (const Part& part : parts_) {
    if (part.is_lost) continue;
    FileEntry& file = files()[part.file];
    file.data_begin = std::min(part.header.data_begin(), file.length);
    if (file.length > part.header.data_end()) {
      notes_.add({.message = (file.name.empty() ? "the file" : file.name) + " goes on for " +
                             counted(file.length - part.header.data_end(), "byte") +
                             " after its last tensor"});
    }
    parts.push_back({static_cast<std::uint16_t>(part.file), file.name, &part.header, part.bytes});
  }
  auto tables = gguf_tables(parts, options().limits);
  if (!tables) return propagate(tables);
  auto catalog = Catalog::from_foreign({.format = &kGgufFormat,
                                        .tables = std::move(*tables),
                                        .files = std::move(files()),
                                        .notes = std::move(notes_),
                                        .nest = options().nest},
                                       options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
