// Makes random key maps, and compares what they make with an interpreter that moves one element at
// a time by the words of the rules, and knows nothing of plans.
//
//   map_test [--maps N] [--seed S]
//
// Map number i comes from seed S + i alone, so that a failure is repeated with `--maps 1 --seed`.
// Of each map and a state that it takes:
// - every tensor that is made is the interpreter's, and the plan's counts are those of its tensors;
// - the map read the other way gives a state with the digest of the first;
// - the bytes are the same with 1, 2 and 8 threads, with little memory, from a mapped file and from
//   one that is read;
// - any part of a tensor that TargetMaker makes is the interpreter's;
// - without the sizes of its words it makes the same, or says that sizes are missing.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/random.h"
#include "support/temporary_folder.h"

#include "espalier/map/plan.h"
#include "espalier/map/target_maker.h"
#include "espalier/mapped_checkpoint.h"
#include "espalier/save.h"
#include "files/map/map_targets.h"

namespace espalier::testing {
namespace {

struct Word {
  std::string name;
  std::uint64_t size = 1;
};

// A tensor of a rule: the factors of each of its axes. kPart stands for the summand of the cell.
constexpr std::size_t kPart = 99;
struct Layout {
  std::vector<std::vector<std::size_t>> axes;
  // Words that are captures in its name.
  std::vector<std::size_t> captures;
};

// One side of a rule: a tensor for each cell, or one for all.
struct RuleSide {
  char letter = 'a';
  bool is_separate = false;
  std::vector<Layout> tensors;
};

// Words that both sides have, and cells, which differ by their summand.
struct RandomRule {
  std::size_t number = 0;
  std::vector<Word> words;
  std::vector<Word> cells;
  std::vector<std::uint64_t> family;  // values of a capture of both sides; empty without one
  RuleSide sides[2];
};

using Assignment = std::vector<std::uint64_t>;

class Interpreter {
 public:
  Interpreter(const RandomRule& rule, std::size_t width) : rule_(rule), width_(width) {}

  struct Plain {
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  using Tensors = std::map<std::string, Plain>;

  // All tensors of a side, zero.
  Tensors tensors_of(int side) const {
    Tensors made;
    for_each_element(
        [&](const Assignment& at, std::uint64_t member, std::size_t cell, std::uint64_t) {
          const std::string name = name_of(side, at, member, cell);
          if (made.count(name) > 0) return;
          Plain plain;
          std::uint64_t elements = 1;
          for (const auto& axis : layout(side, cell).axes) {
            std::uint64_t length = 1;
            for (const std::size_t factor : axis) length *= size_of(side, factor, cell);
            plain.shape.push_back(length);
            elements *= length;
          }
          plain.bytes.resize(static_cast<std::size_t>(elements) * width_);
          made.emplace(name, std::move(plain));
        });
    return made;
  }

  void move(int from, const Tensors& source, Tensors& target) const {
    for_each_element(
        [&](const Assignment& at, std::uint64_t member, std::size_t cell, std::uint64_t part) {
          const Plain& read = source.at(name_of(from, at, member, cell));
          Plain& written = target.at(name_of(1 - from, at, member, cell));
          std::memcpy(written.bytes.data() + index_of(1 - from, at, cell, part) * width_,
                      read.bytes.data() + index_of(from, at, cell, part) * width_, width_);
        });
  }

 private:
  const Layout& layout(int side, std::size_t cell) const {
    const RuleSide& all = rule_.sides[side];
    return all.tensors[all.is_separate ? cell : 0];
  }

  std::uint64_t size_of(int side, std::size_t factor, std::size_t cell) const {
    if (factor != kPart) return rule_.words[factor].size;
    if (rule_.sides[side].is_separate) return rule_.cells[cell].size;
    std::uint64_t sum = 0;
    for (const Word& each : rule_.cells) sum += each.size;
    return sum;
  }

  std::string name_of(int side, const Assignment& at, std::uint64_t member,
                      std::size_t cell) const {
    const RuleSide& all = rule_.sides[side];
    std::string name = all.letter + std::to_string(rule_.number);
    if (!rule_.family.empty()) name += '.' + std::to_string(member);
    for (const std::size_t word : layout(side, cell).captures)
      name += ".n" + std::to_string(at[word]);
    if (all.is_separate) name += ".c" + std::to_string(cell);
    return name;
  }

  std::size_t index_of(int side, const Assignment& at, std::size_t cell, std::uint64_t part) const {
    std::uint64_t index = 0;
    for (const auto& axis : layout(side, cell).axes) {
      for (const std::size_t factor : axis) {
        std::uint64_t digit = 0;
        if (factor != kPart) {
          digit = at[factor];
        } else {
          digit = part;
          if (!rule_.sides[side].is_separate) {
            for (std::size_t c = 0; c < cell; ++c) digit += rule_.cells[c].size;
          }
        }
        index = index * size_of(side, factor, cell) + digit;
      }
    }
    return static_cast<std::size_t>(index);
  }

  template <class Use>
  void for_each_element(const Use& use) const {
    const std::vector<std::uint64_t> members =
        rule_.family.empty() ? std::vector<std::uint64_t>{0} : rule_.family;
    for (const std::uint64_t member : members) {
      for (std::size_t cell = 0; cell < rule_.cells.size(); ++cell) {
        for (std::uint64_t part = 0; part < rule_.cells[cell].size; ++part) {
          Assignment at(rule_.words.size(), 0);
          for (bool more = true; more;) {
            use(at, member, cell, part);
            more = false;
            for (std::size_t i = at.size(); i > 0 && !more; --i) {
              if (++at[i - 1] < rule_.words[i - 1].size) {
                more = true;
              } else {
                at[i - 1] = 0;
              }
            }
          }
        }
      }
    }
  }

  const RandomRule& rule_;
  std::size_t width_;
};

Layout random_layout(Random& random, const std::vector<Word>& words,
                     const std::vector<std::size_t>& captures) {
  Layout layout;
  layout.captures = captures;
  std::vector<std::size_t> factors = {kPart};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::find(captures.begin(), captures.end(), i) == captures.end()) factors.push_back(i);
  }
  random.shuffle(factors);
  for (const std::size_t factor : factors) {
    if (layout.axes.empty() || random.one_in(2)) layout.axes.emplace_back();
    layout.axes.back().push_back(factor);
  }
  return layout;
}

RandomRule random_rule(Random& random, std::size_t number, std::uint64_t most) {
  RandomRule rule;
  rule.number = number;
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    rule.words.push_back({std::string(1, static_cast<char>('h' + i)) + std::to_string(number),
                          1 + random.below(most)});
  }
  const std::uint64_t cells = 1 + random.below(3);
  const bool are_equal = random.one_in(4);
  for (std::uint64_t i = 0; i < cells; ++i) {
    Word cell{"s" + std::to_string(number) + (are_equal ? "" : std::to_string(i)),
              1 + random.below(most)};
    if (are_equal && i > 0) cell.size = rule.cells.front().size;
    rule.cells.push_back(std::move(cell));
  }
  if (random.one_in(3)) {
    for (std::uint64_t value = random.below(3) + 1; value > 0; --value) {
      rule.family.push_back(value - 1);
    }
  }
  std::vector<std::size_t> captures[2];
  for (std::size_t i = 0; i < rule.words.size(); ++i) {
    // Of a large map, words are axes.
    if (most < 10 && random.one_in(5)) captures[random.below(2)].push_back(i);
  }
  for (int side = 0; side < 2; ++side) {
    RuleSide& made = rule.sides[side];
    made.letter = side == 0 ? 'a' : 'b';
    made.is_separate = cells > 1 && random.one_in(2);
    for (std::uint64_t i = made.is_separate ? cells : 1; i > 0; --i) {
      made.tensors.push_back(random_layout(random, rule.words, captures[side]));
    }
  }
  return rule;
}

std::string text_of(const RandomRule& rule, int side, std::size_t tensor) {
  const RuleSide& all = rule.sides[side];
  const Layout& layout = all.tensors[tensor];
  std::string text = all.letter + std::to_string(rule.number);
  if (!rule.family.empty()) text += ".{f" + std::to_string(rule.number) + "}";
  for (const std::size_t word : layout.captures) text += ".n{" + rule.words[word].name + '}';
  if (all.is_separate) text += ".c" + std::to_string(tensor);
  text += " [";
  for (const auto& axis : layout.axes) {
    if (text.back() != '[') text += ' ';
    const bool is_product = axis.size() > 1;
    if (is_product) text += '(';
    for (std::size_t i = 0; i < axis.size(); ++i) {
      if (i > 0) text += ' ';
      if (axis[i] != kPart) {
        text += rule.words[axis[i]].name;
      } else if (all.is_separate || rule.cells.size() == 1) {
        text += rule.cells[tensor].name;
      } else {
        if (is_product) text += '(';
        for (std::size_t c = 0; c < rule.cells.size(); ++c) {
          if (c > 0) text += '+';
          text += rule.cells[c].name;
        }
        if (is_product) text += ')';
      }
    }
    if (is_product) text += ')';
  }
  return text + ']';
}

std::string text_of(const RandomRule& rule) {
  std::string text;
  for (int side = 0; side < 2; ++side) {
    if (side == 1) text += " <-> ";
    for (std::size_t i = 0; i < rule.sides[side].tensors.size(); ++i) {
      if (i > 0) text += ", ";
      text += text_of(rule, side, i);
    }
  }
  return text;
}

struct Counts {
  std::uint64_t maps = 0;
  std::uint64_t targets = 0;
  std::uint64_t strided = 0;
  std::uint64_t undetermined = 0;
  std::uint64_t of_several_passes = 0;
};

class Case {
 public:
  Case(std::uint64_t seed, const TemporaryFolder& folder, Counts& counts)
      : random_(seed), folder_(folder), counts_(counts), is_large_(seed % 500 == 0) {}

  std::string run() {
    static const std::vector<DType> dtypes = {DType::kBF16, DType::kF32, DType::kF64, DType::kU8,
                                              DType::kC128, DType::kI64, DType::kBool};
    dtype_ = random_.pick(dtypes);
    width_ = dtype_bits(dtype_) / 8;
    std::string rules;
    const std::uint64_t count = is_large_ ? 1 : 1 + random_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      rules_.push_back(random_rule(random_, i, is_large_ ? 60 : 4));
      rules += (i > 0 ? ", \"" : "\"") + text_of(rules_.back()) + '"';
    }
    text_ = R"({"espalier_map": 1, "rest": "keep", "left": {"tree": "flat"}, "right": {"tree": )"
            R"("flat"}, "rules": [)" +
            rules + "]}";
    const auto map = KeyMap::parse(text_);
    if (!map) return map.error().describe();
    const int from = static_cast<int>(random_.below(2));
    if (auto wrong = make_states(from); !wrong.empty()) return wrong;
    if (auto wrong = check(*map, from); !wrong.empty()) return wrong;
    return {};
  }

  const std::string& text() const { return text_; }

 private:
  using State = Interpreter::Tensors;

  std::string make_states(int from) {
    for (const RandomRule& rule : rules_) {
      const Interpreter interpreter(rule, width_);
      State source = interpreter.tensors_of(from);
      for (auto& [name, tensor] : source) {
        for (std::byte& byte : tensor.bytes) {
          byte = static_cast<std::byte>(random_.below(dtype_ == DType::kBool ? 2 : 256));
        }
      }
      State target = interpreter.tensors_of(1 - from);
      interpreter.move(from, source, target);
      sources_in_rules_.push_back(source.size());
      targets_in_rules_.push_back(target.size());
      before_.merge(source);
      after_.merge(target);
    }
    const auto kept = save_to_memory(value_of(before_));
    if (!kept) return kept.error().describe();
    bytes_ = *kept;
    return {};
  }

  Value value_of(const State& state) const {
    Value value = Value::dict();
    for (const auto& [name, tensor] : state) {
      Tensor made{.dtype = dtype_, .shape = tensor.shape};
      made.data = TensorData::owned(std::vector<std::byte>(tensor.bytes));
      value.add(Key(name), Value::tensor(std::move(made)));
    }
    value.add("kept", Value::integer(7));
    return value;
  }

  MappedOptions options_for(bool reverse, unsigned threads) const {
    MappedOptions options;
    options.lift.plan.reverse = reverse;
    for (const RandomRule& rule : rules_) {
      for (const auto* words : {&rule.words, &rule.cells}) {
        for (const Word& word : *words) options.lift.plan.sizes[word.name] = word.size;
      }
    }
    options.targets.threads = threads;
    if (threads > 1) options.targets.memory = 1;  // as little as it takes
    return options;
  }

  // The bytes of the file that a map makes.
  static Result<std::vector<std::byte>> save_mapped(const MappedCheckpoint& mapped,
                                                    unsigned threads) {
    auto outputs = mapped.outputs();
    if (!outputs) return propagate(outputs);
    return save_to_memory(outputs->front().state, {.threads = threads});
  }

  std::string compare(const std::vector<std::byte>& bytes) const {
    const auto file = CheckpointFile::open(bytes);
    if (!file) return file.error().describe();
    if (file->state().size() != after_.size() + 1) return "it has another number of tensors";
    for (const auto& [name, want] : after_) {
      const auto node = file->state().find(KeyView::of(name));
      if (!node || !node->tensor()) return name + " is missing";
      const auto view = file->slice(*node->tensor(), {});
      if (!view) return view.error().describe();
      if (view->shape != want.shape) return name + " has another shape";
      if (!std::ranges::equal(view->bytes(), want.bytes)) {
        return name + " has other elements";
      }
    }
    return {};
  }

  std::string check(const KeyMap& map, int from) {
    const bool reverse = from == 1;
    const auto file = CheckpointFile::open(bytes_);
    if (!file) return file.error().describe();
    const auto mapped = MappedCheckpoint::make(map, {{*file}}, options_for(reverse, 1));
    if (!mapped) return mapped.error().describe();
    if (auto wrong = check_counts(mapped->plan()); !wrong.empty()) return wrong;
    const auto made = save_mapped(*mapped, 1);
    if (!made) return made.error().describe();
    if (auto wrong = compare(*made); !wrong.empty()) return wrong;

    if (auto wrong = check_parts(mapped->plan()); !wrong.empty()) return wrong;

    const auto there = CheckpointFile::open(*made);
    if (!there) return there.error().describe();
    const auto back = MappedCheckpoint::make(map, {{*there}}, options_for(!reverse, 1));
    if (!back) return "back: " + back.error().describe();
    const auto again = save_mapped(*back, 1);
    if (!again) return "back: " + again.error().describe();
    const auto returned = CheckpointFile::open(*again);
    if (!returned) return "back: " + returned.error().describe();
    if (returned->checkpoint().catalog().tree_digest() !=
        file->checkpoint().catalog().tree_digest()) {
      return "there and back gives another digest";
    }

    // Threads take their time to start.
    if (is_large_ || counts_.maps % 10 == 0) {
      const std::filesystem::path path = folder_ / "source";
      if (auto ok = save(path, value_of(before_), {.sync = false}); !ok) {
        return ok.error().describe();
      }
      for (const unsigned threads : {2u, 8u}) {
        OpenFileOptions options;
        options.access = threads == 2 ? Access::kMapped : Access::kRead;
        const auto of_disk = CheckpointFile::open(path, options);
        if (!of_disk) return of_disk.error().describe();
        const auto other = MappedCheckpoint::make(map, {{*of_disk}}, options_for(reverse, threads));
        if (!other) return other.error().describe();
        const auto same = save_mapped(*other, threads);
        if (!same) return same.error().describe();
        if (*same != *made) return std::to_string(threads) + " threads make other bytes";
        for (std::size_t i = 0; i < other->plan().targets().size(); ++i) {
          if (!other->plan().targets()[i].pieces.empty() && other->targets().passes(i) > 1) {
            ++counts_.of_several_passes;
          }
        }
      }
    }
    return check_without_sizes(map, *file, reverse, *made);
  }

  std::string check_counts(const MapPlan& plan) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (plan.rules()[i].sources != sources_in_rules_[i]) return "the plan counts other sources";
      if (plan.rules()[i].targets != targets_in_rules_[i]) return "the plan counts other targets";
    }
    if (plan.kept() != 1) return "the plan keeps another number of values";
    counts_.targets += plan.targets().size();
    for (const MapTarget& target : plan.targets()) {
      if (target.work == MapWork::kStrided) ++counts_.strided;
    }
    return {};
  }

  // Makes some bytes of each target from those of its sources.
  std::string check_parts(const MapPlan& plan) {
    for (std::size_t i = 0; i < plan.targets().size(); ++i) {
      const auto want = after_.find(plan.targets()[i].name);
      if (want == after_.end()) continue;  // what is kept
      const std::vector<std::byte>& bytes = want->second.bytes;
      const std::uint64_t begin = random_.below(bytes.size());
      const std::uint64_t end = begin + random_.below(bytes.size() - begin + 1);
      auto maker = TargetMaker::make(plan, i, begin, end, 0);
      if (!maker) return maker.error().describe();
      while (const auto need = maker->need()) {
        const ByteSpan all = before_.at(plan.leaves()[need->leaf].name).bytes;
        if (need->end > all.size() || need->end - need->begin > bytes.size() + all.size()) {
          return want->first + " needs bytes that are not there";
        }
        maker->feed(all.subspan(static_cast<std::size_t>(need->begin),
                                static_cast<std::size_t>(need->end - need->begin)));
      }
      const auto part = std::move(*maker).take();
      if (!std::equal(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                      bytes.begin() + static_cast<std::ptrdiff_t>(end))) {
        return "a part of " + want->first + " has other elements";
      }
    }
    return {};
  }

  std::string check_without_sizes(const KeyMap& map, const CheckpointFile& file, bool reverse,
                                  const std::vector<std::byte>& made) {
    MappedOptions options;
    options.lift.plan.reverse = reverse;
    const auto mapped = MappedCheckpoint::make(map, {{file}}, options);
    if (!mapped) {
      if (mapped.error().code != ErrorCode::kMapUndetermined) {
        return "without sizes: " + mapped.error().describe();
      }
      ++counts_.undetermined;
      return {};
    }
    const auto same = save_mapped(*mapped, 1);
    if (!same) return same.error().describe();
    return *same == made ? "" : "without sizes it makes other bytes";
  }

  Random random_;
  const TemporaryFolder& folder_;
  Counts& counts_;
  const bool is_large_;
  DType dtype_ = DType::kU8;
  std::size_t width_ = 1;
  std::vector<RandomRule> rules_;
  std::string text_;
  State before_;
  State after_;
  std::vector<std::uint64_t> sources_in_rules_;
  std::vector<std::uint64_t> targets_in_rules_;
  std::vector<std::byte> bytes_;
};

int run(std::uint64_t maps, std::uint64_t seed) {
  const TemporaryFolder folder;
  Counts counts;
  for (std::uint64_t i = 0; i < maps; ++i, ++counts.maps) {
    Case one(seed + i, folder, counts);
    if (const std::string wrong = one.run(); !wrong.empty()) {
      std::printf("seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed + i), wrong.c_str(),
                  one.text().c_str());
      return 1;
    }
  }
  const auto printed = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu maps, %llu targets, %llu of them strided, %llu made in several passes; %llu maps need "
      "sizes\n",
      printed(maps), printed(counts.targets), printed(counts.strided),
      printed(counts.of_several_passes), printed(counts.undetermined));
  // A generator that makes none would test nothing.
  const bool is_varied = counts.strided > maps / 10 && counts.undetermined > maps / 10 &&
                         counts.undetermined < maps - maps / 10 && counts.of_several_passes > 0;
  return maps < 1000 || is_varied ? 0 : 1;
}

}  // namespace
}  // namespace espalier::testing

int main(int argc, char** argv) {
  std::uint64_t maps = 10'000;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string_view text = argv[i + 1];
    std::uint64_t& number = option == "--seed" ? seed : maps;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if ((option != "--seed" && option != "--maps") || parsed.ec != std::errc()) {
      std::fprintf(stderr, "usage: map_test [--maps N] [--seed S]\n");
      return 2;
    }
  }
  return espalier::testing::run(maps, seed);
}
