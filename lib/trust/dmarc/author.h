#pragma once
/// The authors that a message names: the domains in its From: fields.
///
/// Use:     auto authors = authors_of(header);   … authors.domains, which count even if there is a problem
/// Rules:   all From: fields and all their addresses count, for each of them may be the one that a reader sees. What
///          cannot be read is a problem, and the domain in it counts as far as DNS could know it: of
///          "a@x..y.example" y.example.
/// Bounds:  kMost domains of kMostAddresses addresses: nobody writes more, but for one purpose.
/// Source:  RFC 9989 section 4.2, RFC 5322 section 3.6.2. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace pen::dmarc {

struct Authors {
  static constexpr std::size_t kMost = 5, kMostAddresses = 100;
  std::vector<std::string> domains;  // lower case, A-labels, each once
  std::string problem;               // empty: none
  bool more = false;                 // than the bounds; the first are in `domains`
};

/// values: the bodies of the From: fields.
Authors authors_of(const std::vector<std::string_view>& values);

}  // namespace pen::dmarc
