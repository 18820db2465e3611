#pragma once
/// The delimiters that split_extension() takes, from two settings.
///
/// Use:     rules.delimiters = mail::delimiters(s.recipient_delimiter, s.owner_request_special);
/// Form:    recipient_delimiter; with owner_request_special = no a "-" in it stands twice, which tells
///          split_extension() to split owner-LIST and LIST-request too. Pure; any thread.
#include <string>

namespace pen::mail {

inline std::string delimiters(std::string recipient_delimiter, bool owner_request_special) {
  if (!owner_request_special && recipient_delimiter.contains('-')) recipient_delimiter += '-';
  return recipient_delimiter;
}

}  // namespace pen::mail
