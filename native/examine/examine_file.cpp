#include "examine/examine_file.h"

#include <algorithm>
#include <complex>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/format/all_notes.h"
#include "espalier/health/check.h"
#include "espalier/notes.h"
#include "espalier/report/node_paths.h"
#include "espalier/tree/magnitude.h"
#include "espalier/walker.h"
#include "files/open/chunk_groups.h"
#include "files/os/parallel.h"

namespace espalier {
namespace {

// Tells the caller how far the work is, and whether it is given up.
class Told {
 public:
  Told(const ReadOptions& options, std::uint64_t total) : options_(options), total_(total) {}

  Result<void> add(std::uint64_t bytes) {
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kCancelled, "the examination was cancelled");
    }
    if (!options_.progress) return {};
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    options_.progress(done_, total_);
    return {};
  }

 private:
  const ReadOptions& options_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

// A tensor is surveyed by one thread, because its elements come in order: the hash needs it.
Result<TensorSurvey> survey(const CheckpointFile& file, const TensorRef& tensor,
                            ChunkGroupBuffer& buffer, Told& told) {
  Surveyor surveyor(tensor.dtype(), tensor.shape());
  for (const ChunkGroup& group : chunk_groups_of(tensor)) {
    auto packed = read_group(file, tensor, group, buffer);
    if (!packed) return propagate(packed);
    surveyor.add(*packed);
    if (auto ok = told.add(packed->size()); !ok) return propagate(ok);
  }
  return surveyor.survey();
}

// Damage is what is looked for; a disk or a network that fails, or a file that another program
// writes to, ends it.
bool is_of_the_file(const Error& error) {
  return error.code != ErrorCode::kIoError && error.code != ErrorCode::kFileChanged &&
         !ends_all(error.code);
}

// The node as a number, if it is one that is no tensor.
std::optional<double> number_of(const NodeRef& node) {
  if (const auto integer = node.as_int64()) return static_cast<double>(*integer);
  if (const auto real = node.as_double()) return real;
  if (const auto pair = node.as_complex()) return magnitude(std::complex<double>(*pair));
  return std::nullopt;
}

// Placeholders whose elements the opener could not find, because a file is damaged or missing.
// Notes say why: those of a tensor, or else the last one of the whole file.
void add_lost(const AllNotes& notes, const std::vector<std::string>& placeholders,
              HealthCheck& check) {
  std::map<std::string_view, std::string_view> of_path;
  std::string_view of_file;
  for (const Note& note : notes.listed) {
    if (note.kind != Note::Kind::kLoss) continue;
    (note.path.empty() ? of_file : of_path[note.path]) = note.message;
  }
  std::vector<std::string_view> others;
  for (const std::string& path : placeholders) {
    const auto own = of_path.find(path);
    if (own == of_path.end()) {
      others.emplace_back(path);
    } else {
      check.add_unreadable(path, std::string(own->second));
    }
  }
  if (others.empty() || of_file.empty()) return;
  std::string reason(of_file);
  if (others.size() > 1) {
    reason += std::string("; so ") + (others.size() == 2 ? "is " : "are ") +
              std::to_string(others.size() - 1) + " more";
  }
  check.add_unreadable(others.front(), std::move(reason));
}

// What is neither an examined tensor nor a chosen number, so that it does not count as missing.
void add_others(const CheckpointFile& file, std::span<const std::uint32_t> tensors,
                std::span<const std::uint32_t> numbers, HealthCheck& check) {
  std::vector<bool> is_added(file.checkpoint().catalog().tables().nodes.size());
  for (const std::uint32_t number : tensors) is_added[number] = true;
  for (const std::uint32_t number : numbers) is_added[number] = true;
  for (const auto [path, node] : Walk(file.state())) {
    if (node.size() == 0 && !is_added[node.number()]) check.add_present(path);
  }
}

}  // namespace

std::uint64_t Examination::count(Severity severity) const {
  return static_cast<std::uint64_t>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& finding) { return finding.severity == severity; }));
}

Result<Examination> examine(const CheckpointFile& file, std::span<const std::uint32_t> nodes,
                            unsigned threads, const ReadOptions& options) {
  Examination examination;
  std::vector<std::uint32_t> first_nodes;
  std::vector<std::uint32_t> numbers;
  std::vector<std::string> placeholders;
  HealthCheck check;
  const NodePaths paths(file.checkpoint());
  std::vector<bool> seen(file.checkpoint().tensor_count());
  for (const std::uint32_t number : nodes) {
    const NodeRef node(&file.checkpoint().catalog(), number);
    if (number_of(node)) numbers.push_back(number);
    const auto tensor = node.tensor();
    if (!tensor || seen[tensor->number()]) continue;
    seen[tensor->number()] = true;
    if (tensor->is_placeholder()) {
      placeholders.push_back(paths.path(number));
      continue;
    }
    examination.opaque += tensor->dtype() == DType::kOpaque ? 1 : 0;
    ++examination.tensors;
    examination.bytes += tensor->bytes();
    first_nodes.push_back(number);
  }
  Told told(options, examination.bytes);
  std::mutex adding;
  std::vector<std::optional<Error>> errors(first_nodes.size());
  std::vector<ChunkGroupBuffer> buffers(thread_count(threads));
  auto done = parallel_for(first_nodes.size(), threads,
                           [&](unsigned worker, std::size_t i) -> Result<void> {
                             const NodeRef node(&file.checkpoint().catalog(), first_nodes[i]);
                             auto surveyed = survey(file, *node.tensor(), buffers[worker], told);
                             if (surveyed) {
                               const std::string path = paths.path(first_nodes[i]);
                               const std::lock_guard lock(adding);
                               check.add(i, path, std::move(*surveyed));
                             } else if (is_of_the_file(surveyed.error())) {
                               errors[i] = surveyed.error();
                             } else {
                               return propagate(surveyed);
                             }
                             return {};
                           });
  if (!done) return propagate(done);
  for (std::size_t i = 0; i < first_nodes.size(); ++i) {
    if (errors[i]) check.add_unreadable(paths.path(first_nodes[i]), errors[i]->message);
  }
  for (const std::uint32_t number : numbers) {
    check.add_number(paths.path(number), *number_of({&file.checkpoint().catalog(), number}));
  }
  add_others(file, first_nodes, numbers, check);
  add_lost(all_notes(file.checkpoint().catalog()), placeholders, check);
  examination.placeholders = placeholders.size();
  examination.findings = check.findings();
  examination.alone = check.alone();
  examination.is_of_some = std::find(seen.begin(), seen.end(), false) != seen.end();
  return examination;
}

}  // namespace espalier
