// Opens a checkpoint of Orbax: a folder. Its files stand in the input one after the other with
// "\n---\n" between them, each behind a line with its name, the one that is opened first. An input
// that does not begin with such a line is one file. Opens it as usual and in one more way, and
// makes every array, whole and as a stream.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz.h"
#include "mutators/mutator.h"

#include "espalier/checkpoint_file.h"
#include "espalier/codec/hash.h"
#include "espalier/foreign/orbax/opener.h"
#include "espalier/format/file_maker.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"

namespace espalier::fuzz {
namespace {

struct Folder {
  std::string first;
  std::map<std::string, ByteSpan, std::less<>> files;
};

Folder split_folder(ByteSpan input) {
  Folder folder;
  if (looks_like_orbax(input, input.size())) {
    folder.files.emplace(folder.first = "_METADATA", input);
    return folder;
  }
  for (std::string_view rest = as_text(input);;) {
    const std::size_t end = std::min(rest.find(kBetweenFiles), rest.size());
    const std::string_view file = rest.substr(0, end);
    const std::size_t line = std::min(file.find('\n'), file.size());
    std::string name(file.substr(0, line));
    if (folder.files.empty()) folder.first = name;
    folder.files.emplace(std::move(name), as_bytes(file.substr(std::min(line + 1, file.size()))));
    if (end == rest.size()) return folder;
    rest.remove_prefix(end + kBetweenFiles.size());
  }
}

// The bytes of a file that a checkpoint has, by its number.
ByteSpan bytes_of(const Folder& folder, const std::vector<std::string>& names, std::uint32_t file) {
  require(file < names.size(), "bytes of an unknown file are needed");
  const auto found = folder.files.find(names[file]);
  require(found != folder.files.end(), "bytes of a missing file are needed");
  return found->second;
}

Result<Checkpoint> open_folder(const Folder& folder, const Drive& drive,
                               std::vector<std::string>* opened = nullptr) {
  std::vector<std::string> names = {folder.first};
  OrbaxOpener opener({.file_size = folder.files.at(folder.first).size(),
                      .limits = drive.limits,
                      .nest = drive.nest,
                      .name = folder.first});
  while (!opener.wants().empty() || !opener.needs().empty()) {
    if (!opener.wants().empty()) {
      const WantedFile wanted = opener.wants().front();
      require(has_allowed_name(wanted), "a name leads out of the folder");
      const auto found = folder.files.find(wanted.name);
      names.push_back(wanted.name);
      const Result<std::uint64_t> size = found != folder.files.end()
                                             ? Result<std::uint64_t>(found->second.size())
                                             : fail(ErrorCode::kFileMissing, "the file is missing");
      if (auto ok = opener.answer(wanted.number, size); !ok) return propagate(ok);
      continue;
    }
    Extent need = opener.needs().front();
    need.length = std::min(need.length, drive.piece);
    const ByteSpan bytes =
        bytes_of(folder, names, need.file)
            .subspan(static_cast<std::size_t>(need.offset), static_cast<std::size_t>(need.length));
    if (auto ok = opener.feed(need, bytes); !ok) return propagate(ok);
  }
  if (opened != nullptr) *opened = std::move(names);
  return opener.finish();
}

using Made = Result<std::vector<std::byte>>;

Made make_whole(const FileEntry& file, const Folder& folder,
                const std::vector<std::string>& names) {
  std::vector<std::byte> out(static_cast<std::size_t>(file.length));
  const auto machine = file.maker->start(out);
  while (!machine->needs().empty()) {
    const Extent need = machine->needs().front();
    const ByteSpan bytes =
        bytes_of(folder, names, need.file)
            .subspan(static_cast<std::size_t>(need.offset), static_cast<std::size_t>(need.length));
    if (auto ok = machine->feed(need, bytes); !ok) return propagate(ok);
  }
  if (auto ok = machine->finish(); !ok) return propagate(ok);
  return out;
}

Made make_in_pieces(const FileEntry& file, const Folder& folder,
                    const std::vector<std::string>& names, testing::Random& random) {
  std::vector<std::byte> out(static_cast<std::size_t>(file.length));
  const auto stream = file.maker->stream(out.size());
  MutableByteSpan left(out);
  while (!stream->needs().empty() || !left.empty()) {
    const auto room = std::min<std::size_t>(left.size(), 1 + random.below(40));
    Extent need = {};
    ByteSpan bytes;
    if (!stream->needs().empty()) {
      need = stream->needs().front();
      need.length = std::min<std::uint64_t>(need.length, 1 + random.below(40));
      bytes = bytes_of(folder, names, need.file)
                  .subspan(static_cast<std::size_t>(need.offset),
                           static_cast<std::size_t>(need.length));
    }
    const std::uint64_t before = need.offset;
    const auto made = stream->feed(need, bytes, left.first(room));
    if (!made) return propagate(made);
    left = left.subspan(*made);
    const auto after = stream->needs();
    const bool is_stuck = *made == 0 && !after.empty() && !bytes.empty() &&
                          after.front().file == need.file && after.front().offset == before;
    require(!is_stuck || room == 0, "a stream stands still");
    if (left.empty() && is_stuck) break;
  }
  if (auto ok = stream->finish(); !ok) return propagate(ok);
  return out;
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto input = fuzz::copy_input(data, size);
  const fuzz::Folder folder = fuzz::split_folder(input);
  const ByteSpan first = folder.files.at(folder.first);
  if (!looks_like_orbax(first, first.size())) return 0;
  std::vector<std::string> names;
  const auto checkpoint = fuzz::check_opening(input, [&](const fuzz::Drive& drive) {
    return fuzz::open_folder(folder, drive, names.empty() ? &names : nullptr);
  });
  if (!checkpoint) return 0;
  testing::Random random(hash128(input).high);
  constexpr std::uint64_t kMostMade = 1 << 16;
  for (const FileEntry& file : checkpoint->catalog().files()) {
    if (!file.maker || file.problem || file.length > kMostMade) continue;
    const auto whole = fuzz::make_whole(file, folder, names);
    const auto pieces = fuzz::make_in_pieces(file, folder, names, random);
    fuzz::require(whole.has_value() == pieces.has_value(), "a stream has another verdict");
    fuzz::require(!whole || *whole == *pieces, "a stream makes other bytes");
  }
  return 0;
}
