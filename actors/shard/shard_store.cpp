#include "troupe/actors/shard/shard_store.hpp"

#include "troupe/actors/shard/request_body.hpp"
#include "troupe/actors/shard/shard_image.hpp"

#include <limits>
#include <new>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

using kind = shard_request_kind;

template <class T>
T decode(const shard_content& from) {
  return decode_body<T>(from.body);
}

const shard_answer out_of_memory{shard_outcome::invalid, {}, "out of memory"};

tensor initial_of(const shard_content& from) {
  return from.operands.size() == 1 ? from.operands[0] : tensor{};
}

} // namespace

std::pair<shard_answer, tensors>
shard_store::perform(const shard_content& x,
                     const std::vector<parameter_server::training>& begins) {
  shard_answer out;
  tensors beside;
  try {
    switch (x.kind) {
      case kind::new_part:
        out.body = encode_body(state_.add(decode<new_part>(x), initial_of(x)));
        break;
      case kind::new_optimizer:
        out.body = encode_body(state_.add(decode<new_optimizer>(x)));
        break;
      case kind::change:
        out.body =
          encode_body(state_.change(decode<change_list>(x), x.operands));
        break;
      case kind::store:
        out.body =
          encode_body(state_.store(decode<execution_effects>(x), x.operands));
        break;
      case kind::decide:
        out.body = encode_body(state_.decide(decode<coordinator::decision>(x)));
        break;
      case kind::pull:
        beside.push_back(state_.pull(decode<part_pull>(x), x.operands));
        break;
      case kind::pull_optimizer:
        beside.push_back(state_.pull(decode<optimizer_pull>(x)));
        break;
      case kind::table:
        out.body = encode_body(state_.table());
        break;
      case kind::status:
        out.body = encode_body(state_.status());
        break;
      case kind::remove:
        out.body = encode_body(state_.remove(decode<removal>(x)));
        break;
      case kind::begin:
        if (begins.size() != 1)
          throw std::invalid_argument("no training begins");
        out.body =
          encode_body(state_.begin(decode<new_training>(x), begins[0]));
        break;
      case kind::rejected:
        out = {shard_outcome::invalid, {}, {x.body.begin(), x.body.end()}};
        break;
    }
  } catch (const std::logic_error& e) {
    out = {shard_outcome::invalid, {}, e.what()};
  }
  return {std::move(out), std::move(beside)};
}

void shard_store::apply(const parameter_server::command& command,
                        const shard_content& content, bool is_alone) {
  const auto client = command.id.client;
  answers_.erase(answers_.lower_bound({client, 0}),
                 answers_.lower_bound({client, command.answered_below}));
  shard_answer made;
  try {
    made = perform(content, command.begins).first;
  } catch (const std::bad_alloc&) {
    if (!is_alone)
      throw;
    made = out_of_memory;
  }
  answers_.insert_or_assign(command.id, std::move(made));
}

std::string shard_store::limit_problem(const shard_content& x,
                                       std::uint64_t max_bytes) const {
  if (max_bytes == 0)
    return {};
  const auto growth_of = [&](const change_list& changes) {
    return state_.growth(state_.decode(changes, x.operands));
  };
  try {
    switch (x.kind) {
      case kind::new_part: {
        const auto initial = initial_of(x);
        return initial && !decode<new_part>(x).is_table
                 ? state_.limit_problem(initial.bytes(), max_bytes)
                 : std::string{};
      }
      case kind::change:
        return state_.limit_problem(growth_of(decode<change_list>(x)),
                                    max_bytes);
      case kind::store:
        return state_.limit_problem(
          growth_of(decode<execution_effects>(x).changes), max_bytes);
      default:
        return {};
    }
  } catch (const std::logic_error&) {
    return {}; // it is wrong, or what it needs is still in the log
  }
}

std::string
shard_store::training_problem(const shard_content& x,
                              const parameter_server::training& of) const {
  try {
    state_.check(decode<new_training>(x), of);
    return {};
  } catch (const std::logic_error& e) {
    return e.what();
  }
}

std::string shard_store::gradient_problem(const parameter_server::push& given,
                                          const tensors& operands,
                                          std::uint64_t max_bytes) const {
  const auto part = given.id.part;
  try {
    const auto change = state_.gradient_of(part, given.factors, operands);
    return max_bytes == 0 || operands.empty()
             ? std::string{}
             : state_.limit_problem(state_.growth_of(part, change), max_bytes);
  } catch (const std::logic_error& e) {
    return e.what();
  }
}

void shard_store::forget(std::uint64_t client) {
  answers_.erase(
    answers_.lower_bound({client, 0}),
    answers_.upper_bound({client, std::numeric_limits<std::uint64_t>::max()}));
}

std::pair<shard_answer, tensors>
shard_store::read(const shard_content& content) {
  try {
    return perform(content);
  } catch (const std::bad_alloc&) {
    return {out_of_memory, {}};
  }
}

void shard_store::clear() {
  state_ = {};
  state_.index = index_;
  answers_.clear();
}

shard_image shard_store::save(tensors& beside) const {
  auto out = save_shard(state_, beside);
  for (const auto& [id, answer] : answers_)
    out.answers.push_back({id, answer});
  return out;
}

void shard_store::restore(const shard_image& from,
                          std::span<const tensor> beside,
                          const parameter_server::training& current) {
  auto made = restore_shard(index_, from, beside);
  made.begin({from.optimizer}, current);
  std::map<parameter_server::command_id, shard_answer> answers;
  for (const auto& one : from.answers)
    answers.emplace(one.id, one.answer);
  state_ = std::move(made);
  answers_ = std::move(answers);
}

void shard_store::take(shard_store&& from) {
  state_ = std::move(from.state_);
  answers_ = std::move(from.answers_);
}

} // namespace troupe
