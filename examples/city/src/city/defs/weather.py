"""The city's own part: an asset, and its resource, which happens to be called ``pipeline``."""

import dagster as dg


class WaterPipeline(dg.ConfigurableResource):  # type: ignore[type-arg]
    """What the city calls a pipeline."""

    litres: int = 40


@dg.asset
def rain(pipeline: WaterPipeline) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Litres that fell."""
    return dg.MaterializeResult(metadata={"litres": pipeline.litres})


@dg.asset(deps=[dg.AssetKey(["rides", "published"])])
def open_data_page() -> dg.MaterializeResult:  # type: ignore[type-arg]
    """The city's page, made anew after the map of rides was published."""
    return dg.MaterializeResult(metadata={"links": "rides"})


defs = dg.Definitions(assets=[rain, open_data_page], resources={"pipeline": WaterPipeline()})
