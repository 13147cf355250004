#include "espalier/native/file_set_opener.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "espalier/native/made_source.h"

namespace espalier {
namespace {

// Files are fed in pieces of at most this many bytes when they are not mapped.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

Result<std::shared_ptr<const Source>> open_named(const OpenSibling& open_sibling,
                                                 const std::string& name) {
  // The name comes from an untrusted file: "../../.ssh/id_rsa" must not be read.
  if (!is_sibling_name(name)) {
    return fail(
        ErrorCode::kFileMissing,
        "the checkpoint names a further file outside its own folder; such files are never opened");
  }
  auto source = open_sibling(name);
  if (source && *source == nullptr) {
    return fail(ErrorCode::kFileMissing, "the checkpoint has bytes in this file; no source for it");
  }
  if (!source && source.error().code == ErrorCode::kFileNotFound) {
    return fail(ErrorCode::kFileMissing,
                "the checkpoint has bytes in this file, which is missing; put it beside the file "
                "that you opened");
  }
  return source;
}

class FileSetOpener {
 public:
  FileSetOpener(OpeningMachine& machine, std::shared_ptr<const Source> first,
                const OpenSibling& open_sibling, const Limits& limits)
      : machine_(machine),
        open_sibling_(open_sibling),
        limits_(limits),
        sources_{std::move(first)} {}

  Result<OpenedFiles> run() {
    while (!machine_.wants().empty() || !machine_.needs().empty()) {
      auto ok = machine_.wants().empty() ? feed() : answer();
      if (!ok) return propagate(ok);
    }
    auto checkpoint = machine_.finish();
    if (!checkpoint) return propagate(checkpoint);
    add_made_files(*checkpoint);
    auto source = sources_.size() == 1 ? sources_.front() : join_sources(std::move(sources_));
    return OpenedFiles{std::move(*checkpoint), std::move(source)};
  }

 private:
  Result<void> answer() {
    const WantedFile wanted = machine_.wants().front();
    if (wanted.number != sources_.size()) {
      return fail(ErrorCode::kInvalidArgument, "the opener numbers its files out of order");
    }
    auto source = open_named(open_sibling_, wanted.name);
    sources_.push_back(source ? std::move(*source) : nullptr);
    if (source) return machine_.answer(wanted.number, sources_.back()->size());
    source.error().file = wanted.name;
    return machine_.answer(wanted.number, propagate(source));
  }

  void add_made_files(const Checkpoint& checkpoint) {
    const auto files = checkpoint.catalog().files();
    if (files.size() <= sources_.size()) return;
    const auto opened = join_sources(sources_);
    const auto budget = std::make_shared<MadeBudget>(limits_.made_bytes);
    for (std::size_t number = sources_.size(); number < files.size(); ++number) {
      sources_.push_back(files[number].maker ? make_source(files[number], opened, budget)
                                             : nullptr);
    }
  }

  Result<void> feed() {
    Extent extent = machine_.needs().front();
    if (extent.file >= sources_.size() || sources_[extent.file] == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "the opener needs bytes of a file that is not open");
    }
    const Source& source = *sources_[extent.file];
    if (!source.mapping()) {
      extent.length = std::min(extent.length, kPieceBytes);
      scratch_.resize(static_cast<std::size_t>(extent.length));
    }
    const Extent of_file{0, extent.offset, extent.length};
    source.populate(of_file);
    auto bytes = source.read(of_file, scratch_);
    if (!bytes) return propagate(bytes);
    if (auto ok = check_answer(of_file, *bytes); !ok) return ok;
    return machine_.feed(extent, *bytes);
  }

  OpeningMachine& machine_;
  const OpenSibling& open_sibling_;
  const Limits& limits_;
  std::vector<std::shared_ptr<const Source>> sources_;
  std::vector<std::byte> scratch_;
};

}  // namespace

Result<OpenedFiles> open_files(OpeningMachine& machine, std::shared_ptr<const Source> first,
                               const OpenSibling& open_sibling, const Limits& limits) {
  return FileSetOpener(machine, std::move(first), open_sibling, limits).run();
}

}  // namespace espalier
