#pragma once
/// The answers to requests with an Idempotency-Key, in memory: what is known, how much there is, what is too old.
///
/// Use:     AnswerTable table(limit, time);
///          const Answered* known = table.find(key, now);   // nullptr: no request had this key
///          if (!table.has_room(key, answer)) … 503 …   table.put(key, answer);
///          for (const auto& key : table.take_old(now)) … remove it from the file …
/// Key:     answer_key(token, the client's text): 32 bytes for the token, then 32 for the text, so that nobody asks
///          with a token for the answers of another.
/// Bounds:  limit bytes in all, a quarter of them for a token. What does not fit is refused, and nothing is forgotten
///          before its time: the promise would be void.
/// Pure; one thread.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/time.h"

namespace pen::api {

/// What a request was answered, or would be if its message is in the queue.
struct Answered {
  bool certain = false;  // false: the message was about to be queued under that id, and then the process ended
  std::string digest;    // SHA-256 of the request
  WallTime at{};
  std::string queue_id;  // empty: nothing was queued
  std::uint16_t status = 0;
  std::string body;
  PEN_FIELDS(certain, digest, at, queue_id, status, body)
};

/// 64 bytes, two SHA-256: safe as a key of the file whatever the texts hold.
std::string answer_key(std::string_view token, std::string_view text);

class AnswerTable {
 public:
  AnswerTable(std::size_t limit, std::chrono::milliseconds time) : limit_(limit), time_(time) {}

  /// nullptr: there is none, or it is too old. Valid until the next put() or erase().
  const Answered* find(const std::string& key, WallTime now) const;
  /// For put(): within the limit of all and that of the token, where what the key has now counts as gone.
  bool has_room(const std::string& key, const Answered& answer) const;
  /// In place of what the key has. Ask has_room() before: it puts it in any case.
  void put(const std::string& key, Answered answer);
  void erase(const std::string& key);
  /// Forgets what is too old.
  std::vector<std::string> take_old(WallTime now);
  std::size_t size() const { return answers_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  static std::size_t cost(const Answered& answer);
  bool old(const Answered& answer, WallTime now) const { return answer.at + time_ <= now; }

  std::size_t limit_;
  std::chrono::milliseconds time_;
  std::unordered_map<std::string, Answered> answers_;
  std::multimap<WallTime, std::string> by_time_;
  std::unordered_map<std::string, std::size_t> by_token_;  // bytes
  std::size_t bytes_ = 0;
};

}  // namespace pen::api
