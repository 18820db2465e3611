#pragma once
/// The tokens with which a client may read what is not for everybody, and give orders.
///
/// Use:     PEN_TRY_ASSIGN(auto tokens, Tokens::read(path));  if (tokens.permit(request.authorization)) …
/// File:    one token in a line, of 16 printable characters or more; empty lines and lines that begin with # are
///          comments. Others than its owner must not be able to read it.
/// Errors:  unreadable, readable by others, a short token; the text says which line, never what it holds.
/// Thread:  any; immutable.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::api {

class Tokens {
 public:
  Tokens() = default;
  /// The file as it is now; it is not looked at again.
  static Result<Tokens> read(const std::string& path);
  /// path: for errors.
  static Result<Tokens> parse(std::string_view text, const std::string& path);
  bool empty() const { return tokens_.empty(); }
  /// The line of the token in an Authorization field: "Bearer TOKEN". nullopt: it is no token of ours. Takes the same
  /// time whatever is right in a wrong one.
  std::optional<int> permit(std::string_view authorization) const;

 private:
  struct Token {
    std::string text;
    int line = 0;
  };
  std::vector<Token> tokens_;
};

}  // namespace pen::api
