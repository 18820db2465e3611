#include "lib/trust/sasl/properties.h"

#include "lib/base/text.h"

namespace pen::sasl {

std::string_view describe(SaslError e) {
  switch (e) {
    case SaslError::bad_setting:
      return "bad value";
    case SaslError::bad_line:
      return "the authentication server violated its protocol";
    case SaslError::wrong_version:
      return "the authentication server speaks another version of its protocol";
    case SaslError::no_mechanism:
      return "the authentication server offers no mechanism";
    case SaslError::bad_challenge:
      return "the challenge cannot be answered";
    case SaslError::no_address:
      return "no address of the host is known";
  }
  return "unknown";
}

unsigned known_properties(std::string_view mechanism) {
  using namespace property;
  if (iequals(mechanism, "PLAIN") || iequals(mechanism, "LOGIN") || iequals(mechanism, "XOAUTH2") ||
      iequals(mechanism, "OAUTHBEARER"))
    return kPlaintext;
  if (iequals(mechanism, "ANONYMOUS")) return kAnonymous;
  if (iequals(mechanism, "CRAM-MD5")) return kDictionary | kActive;
  if (istarts_with(mechanism, "SCRAM-")) return kMutualAuth | kDictionary | kActive;
  return 0;
}

Result<SecurityOptions> SecurityOptions::parse(const std::vector<std::string>& words) {
  struct Row {
    std::string_view word;
    unsigned forbidden, required;
  };
  static constexpr Row kRows[] = {
      {"noplaintext", property::kPlaintext, 0},          {"noactive", property::kActive, 0},
      {"nodictionary", property::kDictionary, 0},        {"noanonymous", property::kAnonymous, 0},
      {"forward_secrecy", 0, property::kForwardSecrecy}, {"mutual_auth", 0, property::kMutualAuth}};
  SecurityOptions options;
  for (const auto& word : words) {
    const Row* found = nullptr;
    for (const Row& row : kRows)
      if (iequals(row.word, word)) found = &row;
    if (found == nullptr)
      return fail(SaslError::bad_setting, "no such security option: \"" + printable(word, 50) + "\"");
    options.forbidden |= found->forbidden;
    options.required |= found->required;
  }
  return options;
}

}  // namespace pen::sasl
