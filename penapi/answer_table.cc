#include "penapi/answer_table.h"

#include "lib/base/digest/digest.h"

namespace pen::api {
namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kAround = 400;  // of an entry in memory, beside its texts

std::string token_part(const std::string& key) { return key.substr(0, kTokenBytes); }

}  // namespace

std::string answer_key(std::string_view token, std::string_view text) {
  return digest::hash(digest::Digest::sha256, token) + digest::hash(digest::Digest::sha256, text);
}

std::size_t AnswerTable::cost(const Answered& answer) {
  return kAround + answer.body.size() + answer.queue_id.size() + answer.digest.size();
}

const Answered* AnswerTable::find(const std::string& key, WallTime now) const {
  const auto at = answers_.find(key);
  return at == answers_.end() || old(at->second, now) ? nullptr : &at->second;
}

bool AnswerTable::has_room(const std::string& key, const Answered& answer) const {
  const auto before = answers_.find(key);
  const std::size_t freed = before == answers_.end() ? 0 : cost(before->second);
  const auto mine = by_token_.find(token_part(key));
  const std::size_t token = mine == by_token_.end() ? 0 : mine->second;
  return bytes_ - freed + cost(answer) <= limit_ && token - freed + cost(answer) <= limit_ / 4;
}

void AnswerTable::put(const std::string& key, Answered answer) {
  erase(key);
  const std::size_t bytes = cost(answer);
  bytes_ += bytes;
  by_token_[token_part(key)] += bytes;
  by_time_.emplace(answer.at, key);
  answers_.emplace(key, std::move(answer));
}

void AnswerTable::erase(const std::string& key) {
  const auto at = answers_.find(key);
  if (at == answers_.end()) return;
  const std::size_t bytes = cost(at->second);
  bytes_ -= bytes;
  if (const auto mine = by_token_.find(token_part(key)); (mine->second -= bytes) == 0) by_token_.erase(mine);
  for (auto [first, last] = by_time_.equal_range(at->second.at); first != last; ++first)
    if (first->second == key) {
      by_time_.erase(first);
      break;
    }
  answers_.erase(at);
}

std::vector<std::string> AnswerTable::take_old(WallTime now) {
  std::vector<std::string> out;
  while (!by_time_.empty() && by_time_.begin()->first + time_ <= now) {
    out.push_back(by_time_.begin()->second);
    erase(out.back());
  }
  return out;
}

}  // namespace pen::api
