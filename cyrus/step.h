#pragma once
/// What decides one login, step by step: Cyrus SASL (exchange.h) or a table of users (table_login.h).
///
/// Use:     Step step = login->start();
///          while (step.kind == Step::Kind::challenge) step = login->respond(…);
///          login->end();
/// Blocks:  start() and respond(): they run in threads, one at a time for a login.
#include <cstdint>
#include <string>
#include <vector>

namespace pen::cyrus {

/// What is said for the log while a login is decided. Passwords are never in it.
struct Note {
  bool warning = false;  // else what a client did wrong
  std::string text;
};

struct Step {
  enum class Kind : std::uint8_t { ok, failed, temporary, challenge } kind = Kind::temporary;
  std::string text;  // challenge: its bytes; failed, temporary: the reason
  std::string user;  // when ok; when failed, if it is known
  std::vector<Note> notes;
};

class Login {
 public:
  virtual ~Login() = default;
  virtual Step start() = 0;
  virtual Step respond(const std::string& bytes) = 0;
  /// The step was the last one: gives back what is held for it.
  virtual void end() {}
};

}  // namespace pen::cyrus
