#pragma once
/// The templates of database tables: query = … '%s' …, search_base, result_format.
///
/// Form:    %% a percent sign; %s the whole text, %u its local part (the whole, without @), %d its domain;
///          %1 … %9 labels of the key's domain, from the right; %S %U %D the same of the key in a result_format, where
///          %s %u %d are of the value. The domain begins behind the last @.
/// Use:     auto query = KeyTemplate::parse("SELECT a FROM t WHERE k = '%s'", "query");
///          if (query->needs(Role::query).met_by(key)) text = query->expand(key, quote);
/// Rule:    a key that lacks a part which a template uses is not asked for ("the key must have it").
/// Errors:  syntax: a % that none of these follows.
/// Source:  Postfix mysql_table(5), ldap_table(5). Pure; any thread.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::map {

/// The parts of a key or value; views into it.
struct KeyParts {
  explicit KeyParts(std::string_view text);
  std::string_view whole, user, domain;
  bool qualified = false;  // it has an @
  /// Label n of the domain from the right, from 1; nullopt: there are not so many.
  std::optional<std::string_view> label(int n) const;
};

/// What a template demands.
struct KeyNeeds {
  bool user = false, domain = false;
  int labels = 0;
  bool met_by(const KeyParts& parts) const;
  KeyNeeds& operator|=(const KeyNeeds& more);
};

class KeyTemplate {
 public:
  /// Appends text, quoted for its place. False: the text cannot be quoted.
  using Quote = std::function<bool(std::string_view text, std::string& out)>;

  KeyTemplate() = default;
  /// parameter: for errors.
  static Result<KeyTemplate> parse(std::string_view text, std::string_view parameter);

  /// Demands of the key, for a template that takes keys: every part.
  KeyNeeds needs_of_query() const;
  /// Demands of the key and of the value, for a result_format.
  KeyNeeds result_needs_of_key() const;
  KeyNeeds result_needs_of_value() const;
  bool has_parts() const;

  /// nullopt: the key lacks a part, or a part cannot be quoted.
  std::optional<std::string> expand(const KeyParts& key, const Quote& quote) const;
  /// A result_format. nullopt: the value or the key lacks a part.
  std::optional<std::string> expand_result(const KeyParts& value, const KeyParts& key) const;

 private:
  struct Piece {
    std::string literal;  // before the part
    char part = '\0';     // '\0': none
  };
  std::vector<Piece> pieces_;
};

}  // namespace pen::map
