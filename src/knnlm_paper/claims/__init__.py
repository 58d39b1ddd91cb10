"""What is claimed, by whom, and what the measurements say: every claim has an id.

claim            what a claim is, and how ids are made
retrieval, approximation, substitutes, ruled_out    the paper's claims
skeptic, audit, beyond                              ours
deciding         a claim and results → a finding with a verdict
other_findings   those that are no sums of log-likelihoods
every            all of them, by id
"""

from knnlm_paper.claims.claim import Claim as Claim
from knnlm_paper.claims.deciding import Change as Change
from knnlm_paper.claims.deciding import Finding as Finding
from knnlm_paper.claims.deciding import Verdict as Verdict
from knnlm_paper.claims.every import Findings as Findings
from knnlm_paper.claims.every import all_claims as all_claims
from knnlm_paper.claims.every import all_findings as all_findings
