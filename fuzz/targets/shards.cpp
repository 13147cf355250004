// Opens a sharded model, a checkpoint of TensorFlow or torch.distributed, or an Espalier file with
// chunks in other files. All of its files stand in the input one after the other, the index or
// .metadata first, with "\n---\n" between them: with the usual limits and with tight ones.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "mutators/mutator.h"

#include "espalier/checkpoint_file.h"
#include "espalier/codec/hash.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/foreign/dcp/opener.h"
#include "espalier/foreign/shards/opener.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/opener.h"
#include "espalier/format/file_set.h"
#include "espalier/format/header.h"
#include "espalier/read/opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier::fuzz {
namespace {

std::vector<ByteSpan> split(ByteSpan input) {
  std::vector<ByteSpan> files;
  for (std::string_view rest = as_text(input);;) {
    const std::size_t end = std::min(rest.find(kBetweenFiles), rest.size());
    files.push_back(as_bytes(rest.substr(0, end)));
    if (end == rest.size()) return files;
    rest.remove_prefix(end + kBetweenFiles.size());
  }
}

std::unique_ptr<OpeningMachine> make_any(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(options);
}

// The files are answered in the order in which they are wanted, and missing when there are no more.
Result<Checkpoint> open(const std::vector<ByteSpan>& files, const Limits& limits,
                        bool nest = false) {
  const OpenOptions options{
      .file_size = files[0].size(), .limits = limits, .nest = nest, .name = "m.index"};
  std::unique_ptr<OpeningMachine> machine;
  if (has_magic(files[0])) {
    machine = std::make_unique<Opener>(options);
  } else if (looks_like_dcp(files[0], files[0].size())) {
    machine = std::make_unique<DcpOpener>(options);
  } else if (looks_like_tensorflow(files[0], files[0].size())) {
    machine = std::make_unique<TensorFlowOpener>(options);
  } else {
    machine = std::make_unique<ShardsOpener>(options, make_any);
  }
  OpeningMachine& opener = *machine;
  while (!opener.wants().empty() || !opener.needs().empty()) {
    if (!opener.wants().empty()) {
      const WantedFile wanted = opener.wants().front();
      require(is_sibling_name(wanted.name), "a name leads out of the folder");
      const Result<std::uint64_t> size = wanted.number < files.size()
                                             ? Result<std::uint64_t>(files[wanted.number].size())
                                             : fail(ErrorCode::kFileMissing, "the file is missing");
      if (auto ok = opener.answer(wanted.number, size); !ok) return propagate(ok);
      continue;
    }
    const Extent need = opener.needs().front();
    const ByteSpan bytes = files[need.file].subspan(static_cast<std::size_t>(need.offset),
                                                    static_cast<std::size_t>(need.length));
    if (auto ok = opener.feed(need, bytes); !ok) return propagate(ok);
  }
  return opener.finish();
}

// Reads all tensors of an Espalier file, and compares with what verifying it finds.
void read_all(const std::vector<ByteSpan>& files, const Checkpoint& checkpoint) {
  std::map<std::string, std::size_t> number_of;
  const auto& entries = checkpoint.catalog().files();
  for (std::size_t i = 1; i < entries.size(); ++i) number_of.emplace(entries[i].name, i);
  OpenFileOptions options;
  options.threads = 1;
  options.sibling = [&](const std::string& name) -> Result<std::shared_ptr<const Source>> {
    const std::size_t number = number_of.at(name);
    if (number < files.size()) return memory_source(files[number]);
    return fail(ErrorCode::kFileMissing, "the file is missing");
  };
  const auto file = CheckpointFile::open(files[0], nullptr, options);
  require(file.has_value(), "a file that opens does not open natively");
  const auto report = file->verify();
  require(report.has_value(), "verifying does not come to an end");
  std::set<std::string> damaged;
  for (const Error& error : report->errors) {
    const bool is_of_chunk =
        error.code == ErrorCode::kChunkCorrupt || error.code == ErrorCode::kBaseMismatch;
    // A file that is another one is an error without an offset.
    if (is_of_chunk && error.offset != Error::kNoOffset) damaged.insert(error.path);
  }
  const bool is_complete = report->errors.size() == report->error_count;
  for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const TensorRef tensor = file->checkpoint().tensor(i);
    if (tensor.is_placeholder()) continue;
    const auto read = file->slice(tensor, {});
    if (!check_readable(tensor)) {
      require(!read.has_value(), "a tensor is read out of a file that is missing");
      continue;
    }
    if (!read && read.error().code == ErrorCode::kLimitExceeded) continue;
    if (!is_complete && !read) continue;
    require(read.has_value() != damaged.contains(tensor_path(tensor)),
            "verifying and reading disagree");
  }
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto input = fuzz::copy_input(data, size);
  const auto files = fuzz::split(input);
  (void)looks_like_shard_index(files[0], files[0].size());
  const auto checkpoint = fuzz::open(files, {});
  testing::Random random(hash128(input).low);
  const auto limited = fuzz::open(files, fuzz::tight_limits(random));
  // A limit that one file exceeds ends all, so it is never a note.
  fuzz::check_limited(checkpoint, limited);
  if (!checkpoint) return 0;
  fuzz::visit(*checkpoint);
  if (has_magic(files[0])) fuzz::read_all(files, *checkpoint);
  const auto nested = fuzz::open(files, {}, true);
  fuzz::require(nested.has_value(), "a model that opens does not open nested");
  fuzz::visit(*nested);
  return 0;
}
