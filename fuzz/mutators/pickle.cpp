#include <algorithm>
#include <iterator>

#include "mutators/mutator.h"

#include "espalier/foreign/pickle/literal.h"

namespace espalier::fuzz {
namespace {

// An opcode with its argument.
using Op = Bytes;

// Opcodes without an argument, which do something to the stack.
constexpr PickleOp kBare[] = {
    PickleOp::kMark,     PickleOp::kStop,       PickleOp::kPop,         PickleOp::kPopMark,
    PickleOp::kDup,      PickleOp::kNone,       PickleOp::kReduce,      PickleOp::kAppend,
    PickleOp::kBuild,    PickleOp::kDict,       PickleOp::kEmptyDict,   PickleOp::kAppends,
    PickleOp::kList,     PickleOp::kEmptyList,  PickleOp::kObj,         PickleOp::kSetItem,
    PickleOp::kTuple,    PickleOp::kEmptyTuple, PickleOp::kSetItems,    PickleOp::kBinPersId,
    PickleOp::kNewObj,   PickleOp::kTuple1,     PickleOp::kTuple2,      PickleOp::kTuple3,
    PickleOp::kNewTrue,  PickleOp::kNewFalse,   PickleOp::kEmptySet,    PickleOp::kAddItems,
    PickleOp::kNewObjEx, PickleOp::kFrozenSet,  PickleOp::kStackGlobal, PickleOp::kMemoize};

// Where the opcode at `at` ends; GLOBAL and INST have two lines.
std::size_t end_of(ByteSpan bytes, std::size_t at) {
  const auto op = static_cast<PickleOp>(bytes[at]);
  if (op == PickleOp::kGlobal || op == PickleOp::kInst) {
    std::size_t end = at + 1;
    for (int lines = 0; lines < 2 && end < bytes.size(); ++end) {
      if (bytes[end] == std::byte{'\n'}) ++lines;
    }
    return end;
  }
  const auto span = find_argument(bytes, at);
  return span ? span->next : bytes.size();
}

// The opcodes of `file`, over the ends of pickles. What has no end is one opcode, and so is all
// behind the thousandth: the storages of an old file of torch are no opcodes.
std::vector<Op> split(const Bytes& file) {
  constexpr std::size_t kMost = 1000;
  std::vector<Op> ops;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t end = ops.size() < kMost ? end_of(view(file), at) : file.size();
    ops.emplace_back(file.begin() + static_cast<std::ptrdiff_t>(at),
                     file.begin() + static_cast<std::ptrdiff_t>(end));
    at = end;
  }
  return ops;
}

// Mutates the argument of an opcode, whose length is made right.
void change_argument(Op& op, std::size_t spare, testing::Random& random,
                     const MutateBytes& mutate) {
  const OpForm argument = form_of(static_cast<PickleOp>(op[0]));
  const std::size_t begin = 1 + std::size_t{argument.length_bytes};
  if (op.size() <= begin) return;
  const auto head = op.begin() + static_cast<std::ptrdiff_t>(begin);
  Bytes body(head, op.end());
  if (argument.fixed != 0) {
    change_numbers(body, random);
  } else {
    body = mutate_anything(std::move(body), body.size() + spare, mutate);
  }
  op.erase(head, op.end());
  for (std::size_t i = 0; i < argument.length_bytes; ++i) {
    op[1 + i] = i < sizeof(std::size_t) ? static_cast<std::uint8_t>(body.size() >> (8 * i)) : 0;
  }
  op.insert(op.end(), body.begin(), body.end());
}

}  // namespace

Bytes mutate_pickle(const Bytes& file, std::size_t most, testing::Random& random,
                    const MutateBytes& mutate) {
  if (file.empty() || most < file.size() || random.one_in(16)) {
    return mutate_anything(file, most, mutate);
  }
  std::vector<Op> ops = split(file);
  const auto place = [&](std::size_t end) {
    return ops.begin() + static_cast<std::ptrdiff_t>(random.below(end));
  };
  for (std::uint64_t n = 1 + random.below(3); n > 0 && !ops.empty(); --n) {
    const auto at = place(ops.size());
    switch (random.below(8)) {
      case 0:
        ops.erase(at);
        break;
      case 1:
        std::iter_swap(at, place(ops.size()));
        break;
      case 2: {
        const Op copied = *at;
        ops.insert(place(ops.size() + 1), copied);
        break;
      }
      case 3: {  // several, as what makes one value
        const auto left = static_cast<std::uint64_t>(ops.end() - at);
        const std::vector<Op> copied(
            at,
            at + static_cast<std::ptrdiff_t>(1 + random.below(std::min<std::uint64_t>(left, 16))));
        ops.insert(place(ops.size() + 1), copied.begin(), copied.end());
        break;
      }
      case 4:
        *at = *place(ops.size());
        break;
      case 5:
        ops.insert(at, Op{static_cast<std::uint8_t>(kBare[random.below(std::size(kBare))])});
        break;
      default:
        change_argument(*at, most - file.size(), random, mutate);
        break;
    }
  }
  Bytes made;
  for (const Op& op : ops) made.insert(made.end(), op.begin(), op.end());
  made.resize(std::min(made.size(), most));
  return made;
}

}  // namespace espalier::fuzz
