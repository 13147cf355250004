// The part of abi.h that plans reads.
#include <cstddef>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "task.h"
#include "tree_handle.h"

#include "espalier/codec/chunk_gate.h"
#include "espalier/read/plan.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(SliceSpec) == 32);
static_assert(sizeof(PlanInfo) == 32);
static_assert(sizeof(PlannedChunk) == 88 && offsetof(PlannedChunk, task) == 40);

}  // namespace

class Read {
 public:
  explicit Read(ReadPlan made) : plan(std::move(made)), copy(copy_words(plan.copy())) {}
  ReadPlan plan;
  std::vector<std::uint64_t> copy;
};

Read* espalier_read(Tree* tree, std::uint32_t number, const SliceSpec* slices,
                    std::uint32_t count) {
  if (number >= tree->checkpoint.tensor_count()) return no_such("tensor", number), nullptr;
  std::vector<Slice> wanted(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (slices[i].has_start != 0) wanted[i].start = slices[i].start;
    if (slices[i].has_stop != 0) wanted[i].stop = slices[i].stop;
    wanted[i].step = slices[i].step;
  }
  const TensorRef tensor = tree->checkpoint.tensor(number);
  auto plan = ReadPlan::make(tensor, wanted);
  if (plan) return new Read(std::move(*plan));
  plan.error().path = tensor_path(tensor);
  set_failure(std::move(plan.error()));
  return nullptr;
}

void espalier_read_info(Read* read, PlanInfo* out) {
  const ReadPlan& plan = read->plan;
  *out = {.bytes = plan.bytes(),
          .shape = plan.shape().data(),
          .rank = static_cast<std::uint32_t>(plan.shape().size()),
          .chunks = static_cast<std::uint32_t>(plan.chunks().size()),
          .is_exclusive = plan.is_concurrent() ? 1u : 0u,
          .copy = read->copy.data(),
          .copy_words = static_cast<std::uint32_t>(read->copy.size())};
}

Status espalier_read_chunk(Read* read, std::uint32_t i, PlannedChunk* out) {
  if (i >= read->plan.chunks().size()) return no_such("planned chunk", i);
  const espalier::PlannedChunk& chunk = read->plan.chunks()[i];
  const TensorRef& tensor = read->plan.tensor();
  const espalier::Extent part = read->plan.part_extent(i);
  const StoredChunk stored = stored_chunk(tensor, chunk.chunk - tensor.first_chunk());
  // The decoder restores numbers in another form.
  const bool is_direct = stored.form.is_plain() && read->plan.direct_offset(i).has_value();
  *out = {.stored = extent_of(chunk.stored),
          .result_begin = part.offset,
          .result_bytes = static_cast<std::uint32_t>(part.length),
          .is_direct = is_direct ? 1u : 0u,
          .task = task_of(chunk.begin, stored)};
  return 0;
}

std::uint32_t espalier_read_base(Read* read, std::uint32_t i, std::uint32_t base,
                                 PlannedBase* out) {
  if (i >= read->plan.chunks().size()) return 0;
  const auto bases = read->plan.chunks()[i].bases;
  if (base >= bases.size()) return 0;
  *out = planned_base(bases[base]);
  return 1;
}

void espalier_read_free(Read* read) { delete read; }

}  // namespace espalier::abi
