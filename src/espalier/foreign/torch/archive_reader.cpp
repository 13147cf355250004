#include "espalier/foreign/torch/archive_reader.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/ascii.h"
#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/foreign/torch/format.h"
#include "espalier/foreign/torch/pickle_checkpoint.h"
#include "espalier/foreign/torch/pickle_rest.h"
#include "espalier/foreign/torch/torch_tree.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::string_view kByteOrder = "byteorder";

// A pickle may take sixteen times its bytes, so one that deflates to nothing would take gigabytes
// from a small file. PyTorch stores its pickles as they are.
constexpr std::uint64_t kMostInflatedPickle = 64;
constexpr std::uint64_t kFreeInflated = std::uint64_t{1} << 20;

// The folder of an entry named <folder>/data.pkl in any case, with its slash.
std::optional<std::string_view> folder_of_pickle(const ZipEntry& entry) {
  const std::size_t slash = entry.name.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  if (!is_in_any_case(entry.name.substr(slash + 1), kPickle)) return std::nullopt;
  return entry.name.substr(0, slash + 1);
}

// The storages of an archive: the entries <folder>/data/<key>.
class ArchiveStorages final : public TorchStorages {
 public:
  ArchiveStorages(ZipArchive& archive, std::string_view folder, std::uint32_t pickle,
                  ByteSpan pickle_bytes)
      : archive_(archive),
        name_(std::string(folder) + "data/"),
        folder_bytes_(name_.size()),
        pickle_(pickle),
        bytes_(pickle_bytes) {}

  Result<TorchStorage> find(std::string_view key) override {
    name_.resize(folder_bytes_);
    name_ += key;
    const auto entries = archive_.directory().entries();
    // Most files have the storages in the order of the tensors.
    if (next_ >= entries.size() || entries[next_].name != name_) {
      const auto number = archive_.directory().find(name_);
      if (!number) {
        return fail(ErrorCode::kForeignInvalid,
                    "data/" + std::string(key) + " is not in the archive; the file is incomplete");
      }
      next_ = *number;
    }
    const std::uint32_t number = next_++;
    const auto place = archive_.place(number);
    if (!place) return propagate(place);
    return TorchStorage{place->file, place->offset, entries[number].length};
  }

  Result<TorchStorage> keep(ByteSpan bytes) override {
    const std::less_equal<> is_before;
    const bool is_in_pickle = is_before(bytes_.data(), bytes.data()) &&
                              is_before(bytes.data() + bytes.size(), bytes_.data() + bytes_.size());
    if (is_in_pickle && !archive_.entry(pickle_).is_deflated) {
      const auto place = archive_.place(pickle_);
      if (!place) return propagate(place);
      const auto at = static_cast<std::uint64_t>(bytes.data() - bytes_.data());
      return TorchStorage{place->file, place->offset + at, bytes.size()};
    }
    const auto place = archive_.keep(bytes);
    if (!place) return propagate(place);
    return TorchStorage{place->file, place->offset, bytes.size()};
  }

  bool is_storage(const ZipEntry& entry) const {
    return entry.name.starts_with(std::string_view(name_).substr(0, folder_bytes_));
  }

 private:
  ZipArchive& archive_;
  std::string name_;  // of a storage's entry, and how much of it is the folder
  std::size_t folder_bytes_;
  std::uint32_t pickle_;
  ByteSpan bytes_;
  std::uint32_t next_ = 0;  // the entry after the last that was found
};

// Bytes of storages that no tensor of `tables` reaches.
std::uint64_t unreached_bytes(const OwnedTables& tables, std::uint64_t stored) {
  std::vector<Extent> runs;
  std::vector<std::uint32_t> order;
  runs.reserve(tables.tensors.size());
  for (const ChunkRecord& chunk : tables.chunks) {
    if (!runs.empty() && runs.back().file == chunk.file &&
        runs.back().offset + runs.back().length == chunk.offset) {
      runs.back().length += chunk.stored;
    } else {
      order.push_back(static_cast<std::uint32_t>(runs.size()));
      runs.push_back({chunk.file, chunk.offset, chunk.stored});
    }
  }
  sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) {
    return runs[a].file != runs[b].file ? runs[a].file < runs[b].file
                                        : runs[a].offset < runs[b].offset;
  });
  std::uint64_t reached = 0;
  std::uint32_t file = 0;
  std::uint64_t end = 0;
  for (const std::uint32_t number : order) {
    const Extent& run = runs[number];
    if (run.file != file) end = 0;
    file = run.file;
    const std::uint64_t to = run.offset + run.length;
    if (to > end) reached += to - std::max(run.offset, end);
    end = std::max(end, to);
  }
  return stored - std::min(stored, reached);
}

tl::unexpected<Error> two_opinions(std::string_view what, const ZipEntry& entry) {
  std::string text = "the archive ";
  text.append(what).append(", and programs take either of them");
  return fail(ErrorCode::kForeignInvalid, text, entry.header_offset);
}

class TorchReader final : public ContentReader {
 public:
  explicit TorchReader(TorchCalls* calls = nullptr) : calls_(calls) {}

  Result<bool> step(ZipArchive& archive) override {
    if (!pickle_) {
      if (auto ok = find_entries(archive.directory()); !ok) return propagate(ok);
      const ZipEntry& entry = archive.entry(*pickle_);
      if (entry.length > archive.options().limits.pickle_bytes) {
        return fail(ErrorCode::kLimitExceeded,
                    "the pickle has " + counted(entry.length, "byte") +
                        " and Limits::pickle_bytes allows " +
                        std::to_string(archive.options().limits.pickle_bytes),
                    entry.header_offset);
      }
      if (entry.is_deflated && entry.length > kFreeInflated &&
          entry.length / kMostInflatedPickle > entry.stored) {
        return fail(ErrorCode::kLimitExceeded,
                    "the pickle has " + counted(entry.length, "byte") + " and its deflated form " +
                        std::to_string(entry.stored) + ", which no checkpoint needs",
                    entry.header_offset);
      }
      pickle_ticket_ = archive.want(*pickle_);
      if (order_) order_ticket_ = archive.want(*order_, 16);
      return false;
    }
    return true;
  }

  Result<ForeignParts> build(ZipArchive& archive) override {
    ForeignParts parts;
    parts.format = &kTorchFormat;
    bool is_big = false;
    if (order_ticket_) {
      const auto order = archive.bytes(*order_ticket_);
      if (!order) return propagate(order);
      is_big = as_text(*order) == "big";
      if (!is_big && as_text(*order) != "little") {
        return fail(ErrorCode::kForeignInvalid, "the byte order is neither little nor big");
      }
    }
    const auto bytes = archive.bytes(pickle_ticket_);
    if (!bytes) return propagate(bytes);
    ArchiveStorages storages(archive, folder_, *pickle_, *bytes);
    const std::uint64_t offset = archive.entry(*pickle_).data_offset;
    const ErrorCode code = ErrorCode::kForeignInvalid;
    auto graph = run_pickle(*bytes, offset);
    if (!graph) {
      // The entry is complete, so it is not a download that ended early.
      if (graph.error().code == ErrorCode::kTruncated) graph.error().code = code;
      add_code(graph.error(), begun_pickle(*bytes));
      return propagate(graph);
    }
    if (graph->size() != bytes->size()) {
      const std::string rest =
          describe_rest(bytes->subspan(static_cast<std::size_t>(graph->size())));
      return fail(code, "the pickle goes on after its end" + rest, offset + graph->size());
    }
    auto tables =
        torch_tables(*graph, storages, is_big, archive.options().limits, parts.notes, calls_);
    if (!tables) return propagate(tables);
    parts.tables = std::move(*tables);
    add_notes(archive, storages, parts);
    return parts;
  }

 private:
  // PyTorch finds entries by names in any case, so what it finds must be what is found here.
  Result<void> find_entries(const ZipDirectory& directory) {
    const auto entries = directory.entries();
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      const auto folder = folder_of_pickle(entries[i]);
      if (!folder) continue;
      if (pickle_) {
        return two_opinions("has two data.pkl", entries[i]);
      }
      pickle_ = i;
      folder_ = *folder;
    }
    for (const ZipEntry& entry : entries) {
      if (entry.name.starts_with(folder_) || entry.is_folder()) continue;
      ++outside_;
      if (!entry.name.ends_with(".npy")) continue;
      return two_opinions("is both a file of PyTorch and an .npz", entry);
    }
    order_ = directory.find_in_any_case(folder_ + std::string(kByteOrder));
    if (const auto twin = directory.find_case_twin()) {
      return two_opinions("has two entries whose names differ only in case", entries[*twin]);
    }
    for (const auto& [number, name] :
         {std::pair(pickle_, kPickle), std::pair(order_, kByteOrder)}) {
      if (!number || entries[*number].name == folder_ + std::string(name)) continue;
      return fail(ErrorCode::kForeignInvalid,
                  "the archive has its " + std::string(name) +
                      " under a name in other letters, which not all programs find",
                  entries[*number].header_offset);
    }
    return {};
  }

  void add_notes(const ZipArchive& archive, const ArchiveStorages& storages,
                 ForeignParts& parts) const {
    std::uint64_t stored = 0;
    std::uint64_t code = 0;
    std::uint64_t constants = 0;
    for (const ZipEntry& entry : archive.directory().entries()) {
      if (storages.is_storage(entry)) stored += entry.length;
      if (!entry.name.starts_with(folder_)) continue;
      const std::string_view rest = entry.name.substr(folder_.size());
      if (begins_in_any_case(rest, "code/")) ++code;
      if (begins_in_any_case(rest, "constants/")) ++constants;
    }
    const auto note = [&](Note::Kind kind, std::string text) {
      parts.notes.add({kind, "", std::move(text)});
    };
    if (const std::uint64_t lost = unreached_bytes(parts.tables, stored); lost > 0) {
      note(Note::Kind::kWarning,
           counted(lost, "byte") +
               " of the storages belong to no tensor; a converted file lacks them.");
    }
    if (outside_ > 0) {
      note(Note::Kind::kLoss, "The archive holds " + counted(outside_, "file") + " outside " +
                                  folder_ + ", which are not shown.");
    }
    if (code > 0) {
      note(Note::Kind::kCode,
           "The archive holds TorchScript code, which torch.jit would run; it is neither "
           "shown nor run here.");
    }
    if (constants > 0) {
      note(Note::Kind::kLoss, "The archive holds " + counted(constants, "constant") +
                                  " of TorchScript code, which are not shown.");
    }
  }

  TorchCalls* calls_;
  std::optional<std::uint32_t> pickle_;
  std::string folder_;
  std::uint64_t outside_ = 0;  // entries that are not in it
  std::size_t pickle_ticket_ = 0;
  std::optional<std::uint32_t> order_;
  std::optional<std::size_t> order_ticket_;
};

}  // namespace

bool is_torch_archive(const ZipDirectory& directory) {
  const auto entries = directory.entries();
  return std::any_of(entries.begin(), entries.end(),
                     [](const ZipEntry& entry) { return folder_of_pickle(entry).has_value(); });
}

std::unique_ptr<ContentReader> make_torch_reader() { return std::make_unique<TorchReader>(); }

std::unique_ptr<ContentReader> make_torch_part_reader(TorchCalls& calls) {
  return std::make_unique<TorchReader>(&calls);
}

}  // namespace espalier
