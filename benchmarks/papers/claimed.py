"""What the papers claim, and what this project does, as data: one sentence each."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from benchmarks.papers.claims import Measured, PaperClaim

OURS = "This project"
_NO_WORSE = {"rule": "no worse"}


def _claims(
    source: str, *rows: tuple[str, str, tuple[Measured, ...], dict[str, Any], str]
) -> Iterator[PaperClaim]:
    """Return the claims of one source.

    rows   (system, systems that it is compared with, measures, further fields, sentence)
    """
    for system, against, measured, fields, sentence in rows:
        yield PaperClaim(source, sentence, system, measured, tuple(against.split()), **fields)


# fmt: off
# Private clustering.

_NICV = (Measured("", "nicv_ratio", variant=None),)
_F_LABEL = (Measured("", "f_label", lower_is_better=False, variant=None),)
_F_KMEANS = (Measured("", "f_kmeans", lower_is_better=False, variant=None),)
_RCP = (Measured("", "rcp", lower_is_better=False, variant=None, is_difference=True),)
_ROUNDS = "dp_kmeans idp_kmeans dp_kmeans_pp"

CLUSTERING = (
    *_claims("Zhang, Cheng 2021 (DPQTk-means)",
        ("dpqt_kmeans", "eug_kmeans", _NICV, {},
         "DPQTk-means has a lower NICV than EUGkM at every ε."),
        ("dpqt_kmeans", "eug_kmeans", _RCP, {},
         "The RCP of DPQTk-means against EUGkM is positive everywhere."),
        ("dpqt_kmeans", _ROUNDS, _NICV, {},
         "DPQTk-means has a lower NICV than DPk-means, IDPk-means and DPk-means++."),
        ("dpqt_kmeans", f"{_ROUNDS} eug_kmeans", _F_LABEL, {},
         "DPQTk-means has a higher F-measure than DPk-means, IDPk-means, DPk-means++ and EUGkM "
         "(classes: the labels of the data)."),
        ("dpqt_kmeans", f"{_ROUNDS} eug_kmeans", _F_KMEANS, {},
         "The same F-measure where the data have no labels "
         "(classes: the clusters of k-means without privacy).")),
    *_claims("Li et al. (IDPk-means)",
        ("idp_kmeans", "dp_kmeans", _NICV, {}, "IDPk-means has a lower NICV than DPk-means."),
        ("idp_kmeans", "dp_kmeans", _F_KMEANS, {"up_to": Fraction(1, 10)},
         "IDPk-means is more usable than DPk-means at low ε (up to 0.1): higher F-measure "
         "(classes: the clusters of k-means without privacy).")),
    *_claims("Su et al. 2016 (EUGkM, DPLloyd, Hybrid)",
        ("eug_kmeans", "dplloyd", _NICV, {}, "EUGkM has a lower NICV than DPLloyd."),
        ("hybrid_kmeans", "eug_kmeans dplloyd", _NICV, {},
         "Hybrid has a lower NICV than both EUGkM and DPLloyd.")),
    *_claims("Hu et al. (DPk-means++)",
        ("dp_kmeans_pp", "dp_kmeans", _NICV, {}, "DPk-means++ has a lower NICV than DPk-means.")),
    *_claims("Ren et al. 2017 (DPLK-means)",
        ("dplk_kmeans", "dp_kmeans", _NICV, {}, "DPLK-means has a lower NICV than DPk-means.")),
    *_claims("Yu et al. 2016 (OEPT)",
        ("oept_kmeans", "dp_kmeans", _NICV, {}, "OEPT has a lower NICV than DPk-means.")),
    *_claims(OURS,
        ("dp_kmeans", "dp_kmeans_halving", _NICV, {},
         "DPk-means with a fixed number of equal rounds has a lower NICV than with halving "
         "budgets."),
        ("htree_kmeans", "dpqt_kmeans eug_kmeans privtree_kmeans", _NICV, _NO_WORSE,
         "The NICV of HTree is no worse than the best of DPQTk-means, EUGkM and PrivTree.")),
)

# Private tables.

DISTANCES = tuple(Measured(f"AVD k={k}", f"avd_{k}") for k in (2, 3, 5, 6))
_ERRORS = (
    Measured("SVM", "misclassified_svm"),
    Measured("logistic regression", "misclassified_logistic"),
)
"""Means over the declared targets."""

RELEASE = (
    *_claims("Zhang et al. 2018 (PrivHD)",
        ("privhd", "privbayes jtree priview", DISTANCES, {},
         "PrivHD (tuned) has a lower AVD than PrivBayes, JTree and PriView."),
        ("privhd_composed", "privbayes_i jtree priview", DISTANCES, {},
         "The same of PrivHD by mutual information, its comparisons composed, where a row is "
         "replaced."),
        ("privhd_peeling", "privbayes_i jtree priview", DISTANCES, {},
         "The same of PrivHD by mutual information, its edges peeled, where a row is replaced."),
        ("privhd", "", DISTANCES, {}, "A bigger ε lowers the AVD of PrivHD (tuned)."),
        ("privhd", "privbayes jtree", _ERRORS, {},
         "Classifiers taught by PrivHD (tuned) misclassify less than those taught by PrivBayes "
         "and JTree."),
        ("privhd", "privbayes jtree", (Measured("run time", "seconds"),), {},
         "PrivHD (tuned) takes less time than PrivBayes and JTree.")),
    *_claims("Chen et al. 2015 (JTree)",
        ("jtree", "privbayes", DISTANCES, {},
         "JTree (its sparse-vector step made sound) has a lower AVD than PrivBayes.")),
    *_claims("McKenna et al. 2022 (AIM)",
        ("aim_like_delta", "mst_delta", DISTANCES[:2], {},
         "AIM (a likeness of it) has a lower AVD than MST.")),
    *_claims(OURS,
        ("one_shot", "", DISTANCES, {}, "A bigger ε lowers the AVD of one_shot."),
        ("one_shot", "privbayes privhd independent_equal", DISTANCES, _NO_WORSE,
         "The AVD of one_shot is no worse than the best of PrivBayes, PrivHD (tuned) and "
         "independent with equal shares."),
        ("one_shot", "independent", DISTANCES, {**_NO_WORSE, "factor": 1.08},
         "The AVD of one_shot is within 8 % of independent with shares ∝ √|Ω|."),
        ("one_shot_delta", "mst_delta", DISTANCES, _NO_WORSE,
         "With δ, the AVD of one_shot is no worse than that of MST."),
        ("one_shot_delta", "aim_like_delta", DISTANCES, {**_NO_WORSE, "factor": 1.15},
         "With δ, the AVD of one_shot is at most 1.15 times that of the likeness of AIM."),
        ("one_shot", "privbayes privhd", _ERRORS, _NO_WORSE,
         "Classifiers taught by one_shot misclassify no more than those taught by the best of "
         "PrivBayes and PrivHD (tuned).")),
)

# k-anonymous tables.

_READINGS = {
    "hamdist_backward": "the bit of least distance is dropped",
    "hamdist_ratio": "the bit is dropped that frees most rows for its distance",
    "hamdist_forward": "RFKA's search in the order of the distance",
}
"""The paper on Greedy_Hamdist could not be read: each reading of it is compared with."""

_NESTED = (
    Measured("AUC by logistic regression (nested)", "auc_logistic", False, "nested"),
    Measured("AUC by SVM (nested)", "auc_svm", False, "nested"),
)
_AUCS = (
    Measured("AUC by SVM (paper)", "auc_svm", False, "paper"),
    Measured("AUC by logistic regression (paper)", "auc_logistic", False, "paper"),
    *_NESTED,
)
_SECONDS = (Measured("run time", "seconds", variant="release"),)
_HOMOGENEOUS = (Measured("rows in classes with one label", "homogeneous", variant="release"),)

ANONYMITY = (
    *_claims("Huang, Zhu (RFKA)",
        *(("rfka", name, _AUCS, _NO_WORSE,
           f"The AUC of RFKA is no lower than that of Greedy_Hamdist at every K ({reading}).")
          for name, reading in _READINGS.items()),
        *(("rfka", name, _SECONDS, {},
           f"RFKA is faster than Greedy_Hamdist ({reading}; distances in closed form).")
          for name, reading in _READINGS.items()),
        ("rfka", "", _AUCS, {"falls": True},
         "The AUC of RFKA falls as K grows (as the figures show): lower than at the K before.")),
    *_claims(OURS,
        ("kjig", "rfka", _NESTED, _NO_WORSE,
         "The AUC of kjig is no lower than that of RFKA at every K."),
        ("kjig", "rfka", _NESTED, {}, "The AUC of kjig is higher than that of RFKA at every K."),
        ("kjig_2diverse", "", _HOMOGENEOUS, {"at_most": 0.0},
         "kjig with 2-diversity leaves no row in a class with one label."),
        ("kjig", "", _SECONDS, {"at_most": 1.0}, "kjig selects in at most one second.")),
)
