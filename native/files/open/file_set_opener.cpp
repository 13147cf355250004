#include "files/open/file_set_opener.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/format/file_set.h"
#include "files/open/made_source.h"
#include "files/os/parallel.h"

namespace espalier {
namespace {

// Files are fed in pieces of at most this many bytes when they are not mapped.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
// What is read at the same time from files on other machines.
constexpr std::uint64_t kBytesTogether = std::uint64_t{32} << 20;
constexpr std::size_t kNeedsTogether = 1024;
// Files on other machines that may fail to open before no more are asked for. Stops a file that
// names a thousand others at a server that never answers, or behind redirects to ports of this
// machine: each would be waited for, or knocked at.
constexpr std::size_t kFailuresBorne = 3;

Result<std::shared_ptr<const Source>> open_named(const OpenSibling& open_sibling,
                                                 const WantedFile& wanted) {
  // The name comes from an untrusted file: "../../.ssh/id_rsa" must not be read.
  if (!has_allowed_name(wanted)) {
    return fail(
        ErrorCode::kFileMissing,
        "the checkpoint names a further file outside its own folder; such files are never opened");
  }
  auto source = open_sibling(wanted.name);
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

tl::unexpected<Error> given_up(Error last, std::size_t failures, const std::string& name,
                               std::size_t wanted) {
  last.message =
      counted(failures, "further file") + " of " + std::to_string(wanted) +
      " could not be read, so the others were not asked for; of this one: " + last.message;
  last.file = name;
  return tl::unexpected<Error>(std::move(last));
}

class FileSetOpener {
 public:
  FileSetOpener(OpeningMachine& machine, std::shared_ptr<const Source> first,
                const OpenSibling& open_sibling, unsigned threads, const Limits& limits)
      : machine_(machine),
        open_sibling_(open_sibling),
        threads_(std::max(threads, 1u)),
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
  // Opens all files that are wanted now, and then tells the machine of one after the other.
  Result<void> answer() {
    const std::vector<WantedFile> wanted(machine_.wants().begin(), machine_.wants().end());
    std::vector<Result<std::shared_ptr<const Source>>> opened(wanted.size());
    const bool is_remote = sources_.front()->is_remote();
    std::atomic<std::size_t> failures = 0;
    auto ok = parallel_for(wanted.size(), threads_, [&](unsigned, std::size_t i) -> Result<void> {
      opened[i] = open_named(open_sibling_, wanted[i]);
      if (opened[i] || opened[i].error().code == ErrorCode::kFileMissing) return {};
      if (opened[i].error().code == ErrorCode::kCancelled)
        return propagate(std::as_const(opened[i]));
      if (!is_remote || ++failures <= kFailuresBorne) return {};
      return given_up(opened[i].error(), failures, wanted[i].name, wanted.size());
    });
    for (std::size_t i = 0; i < wanted.size() && ok; ++i) ok = answer(wanted[i], opened[i]);
    return ok;
  }

  Result<void> answer(const WantedFile& wanted, Result<std::shared_ptr<const Source>>& source) {
    if (wanted.number != sources_.size()) {
      return fail(ErrorCode::kInvalidArgument, "the opener numbers its files out of order");
    }
    sources_.push_back(source ? std::move(*source) : nullptr);
    names_.push_back(wanted.name);
    if (source) return machine_.answer(wanted.number, sources_.back()->size());
    source.error().file = wanted.name;
    return machine_.answer(wanted.number, propagate(source));
  }

  void add_made_files(const Checkpoint& checkpoint) {
    const auto files = checkpoint.catalog().files();
    if (files.size() <= sources_.size()) return;
    const auto opened = join_sources(sources_);
    const auto memory = std::make_shared<MadeMemory>(limits_.made_bytes);
    for (std::size_t number = sources_.size(); number < files.size(); ++number) {
      sources_.push_back(files[number].maker ? make_source(files[number], opened, memory)
                                             : nullptr);
    }
  }

  bool is_open(const Extent& extent) const {
    return extent.file < sources_.size() && sources_[extent.file] != nullptr;
  }

  Result<void> feed() {
    Extent extent = machine_.needs().front();
    if (!is_open(extent)) {
      return fail(ErrorCode::kInvalidArgument, "the opener needs bytes of a file that is not open");
    }
    if (threads_ > 1 && machine_.needs().size() > 1 && sources_[extent.file]->is_remote()) {
      return feed_together();
    }
    const Source& source = *sources_[extent.file];
    if (!source.mapping()) {
      extent.length = std::min(extent.length, kPieceBytes);
      scratch_.resize(static_cast<std::size_t>(extent.length));
    }
    const Extent of_file{0, extent.offset, extent.length};
    populate(source, extent);
    auto bytes = source.read(of_file, scratch_);
    if (!bytes) return in_file(extent.file, propagate(bytes));
    if (auto ok = check_answer(of_file, *bytes); !ok) return in_file(extent.file, propagate(ok));
    return machine_.feed(extent, *bytes);
  }

  // The file whose bytes could not be read. Who opens the first one names it.
  tl::unexpected<Error> in_file(std::uint32_t number, tl::unexpected<Error> failed) const {
    if (failed.value().file.empty()) failed.value().file = names_[number];
    return failed;
  }

  // A request takes milliseconds however short it is, so many wait at the same time.
  Result<void> feed_together() {
    std::vector<Extent> extents;
    std::uint64_t left = kBytesTogether;
    for (Extent need : machine_.needs()) {
      need.length = std::min({need.length, kPieceBytes, left});
      if (need.length == 0 || extents.size() == kNeedsTogether || !is_open(need)) break;
      left -= need.length;
      extents.push_back(need);
    }
    // Neighbours become one request.
    for (const Extent& extent : extents) {
      sources_[extent.file]->prefetch({0, extent.offset, extent.length});
    }
    std::vector<std::vector<std::byte>> buffers(extents.size());
    std::vector<ByteSpan> read(extents.size());
    auto ok = parallel_for(extents.size(), threads_, [&](unsigned, std::size_t i) -> Result<void> {
      const Extent of_file{0, extents[i].offset, extents[i].length};
      buffers[i].resize(static_cast<std::size_t>(of_file.length));
      const auto bytes = sources_[extents[i].file]->read(of_file, buffers[i]);
      if (!bytes) return in_file(extents[i].file, propagate(bytes));
      read[i] = *bytes;
      auto whole = check_answer(of_file, *bytes);
      return whole ? whole : in_file(extents[i].file, propagate(whole));
    });
    // What one machine no longer needs after the bytes before, it ignores.
    for (std::size_t i = 0; i < extents.size() && ok; ++i) ok = machine_.feed(extents[i], read[i]);
    return ok;
  }

  // Many small needs, such as the headers in an archive, share pages: one system call for each page
  // is enough.
  void populate(const Source& source, const Extent& extent) {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t end = extent.offset + extent.length;
    if (extent.file == populated_.file && extent.offset >= populated_.offset &&
        end <= populated_.offset + populated_.length) {
      return;
    }
    source.populate({0, extent.offset, extent.length});
    const std::uint64_t begin = extent.offset / kPage * kPage;
    populated_ = {extent.file, begin, (end + kPage - 1) / kPage * kPage - begin};
  }

  OpeningMachine& machine_;
  const OpenSibling& open_sibling_;
  const unsigned threads_;
  const Limits& limits_;
  std::vector<std::shared_ptr<const Source>> sources_;
  std::vector<std::string> names_ = {""};  // of the sources
  std::vector<std::byte> scratch_;
  Extent populated_;
};

}  // namespace

Result<OpenedFiles> open_files(OpeningMachine& machine, std::shared_ptr<const Source> first,
                               const OpenSibling& open_sibling, unsigned threads,
                               const Limits& limits) {
  return FileSetOpener(machine, std::move(first), open_sibling, threads, limits).run();
}

}  // namespace espalier
