#pragma once
/// The DNS lists that restriction lists name, by what they are asked about: so that a session can ask all of them at
/// once, long before it evaluates the restrictions.
///
/// Use:     auto lists = NamedLists::of({&client, &helo, …});   // nullptr: none is named
/// Left out: lists that only access tables name; they are asked when a table names them.
/// Pure; any thread.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/meaning/smtpd/restriction.h"

namespace pen::smtpd {

struct NamedLists {
  /// Domains of lists, each once.
  using Domains = std::vector<std::string>;
  Domains client_address, client_name, reverse_name, helo, sender, recipient;

  static std::unique_ptr<const NamedLists> of(std::span<const RestrictionList* const> lists);
};

}  // namespace pen::smtpd
