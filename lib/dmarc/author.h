#pragma once
/// Whom a message says it is from: the domains in its From: fields.
///
/// Use:     auto authors = authors_of(header);   if (authors.problem.empty()) … authors.domains
/// Rules:   all From: fields and all their addresses count, for each of them may be the one that a reader sees.
/// Bounds:  more than kMost domains are a problem: nobody writes so, but for one purpose.
/// Source:  RFC 9989 section 4.2, RFC 5322 section 3.6.2. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace pen::dmarc {

struct Authors {
  static constexpr std::size_t kMost = 5;
  std::vector<std::string> domains;  // lower case, A-labels, each once
  std::string problem;               // empty: none
};

/// values: the bodies of the From: fields.
Authors authors_of(const std::vector<std::string_view>& values);

}  // namespace pen::dmarc
