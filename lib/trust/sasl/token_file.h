#pragma once
/// The file of tokens with which clients log in (smtpd_sasl_token_file).
///
/// Use:     PEN_TRY_ASSIGN(auto tokens, TokenFile::read(path));
///          if (const auto* found = tokens.find(token)) … found->login, found->senders …
/// File:    a line for each token: the login, the SHA-256 of the token in hex, and addresses or @domains that it may
///          use as senders, <> among them; without any it may use all. Empty lines and lines that begin with # are
///          comments. A login may have several tokens. Others than owner and group must not be able to read the file.
/// Hash:    a token is a long random text and no password, so a plain SHA-256 cannot be undone by guessing. What is
///          shorter than kShortest is no token.
/// Errors:  SaslError::bad_setting, with the line; errno.
/// Thread:  any; immutable.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::sasl {

/// Addresses, @domains and <>, as the file has them; empty: all.
using Senders = std::vector<std::string>;

class TokenFile {
 public:
  static constexpr std::size_t kShortest = 32, kLongest = 512;
  struct Entry {
    std::string login;
    std::shared_ptr<const Senders> senders;  // nullptr: all
    std::string hash;                        // raw bytes
  };
  TokenFile() = default;
  static Result<TokenFile> read(const std::string& path);
  static Result<TokenFile> parse(std::string_view text);

  /// nullptr: there is no such token. Takes the same time whatever is right in a wrong one.
  const Entry* find(std::string_view token) const;
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace pen::sasl
